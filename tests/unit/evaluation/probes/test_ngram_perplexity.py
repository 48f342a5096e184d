from nextquery.evaluation.probes.ngrams import ngram_perplexities
from nextquery.logs.data_folder import PreparedData
from nextquery.text.vocabulary import Vocabulary


def test_each_order_in_a_models_own_words(small_data: PreparedData) -> None:
    few, many = (Vocabulary(small_data.words()[:size]) for size in (50, 2000))
    found = ngram_perplexities(small_data, many, iter)

    assert [each.order for each in found] == [1, 2, 3]
    assert len({each.symbols for each in found}) == 1
    # the made-up log's queries have structure: pairs say more than words alone
    assert found[1].perplexity < 0.5 * found[0].perplexity
    assert found[0].fitted_sessions > found[0].measured_sessions > 0
    # with few words most symbols are the unknown one, which is easy to predict
    assert ngram_perplexities(small_data, few, iter)[0].perplexity < found[0].perplexity
