"""N-gram models and their perplexities."""

import numpy as np
import pytest

from nextquery.evaluation.probes.ngrams import KneserNey, ngram_perplexities
from nextquery.logs.data_folder import PreparedData
from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import Vocabulary

A, B, END = 3, 4, 1


def sessions(*queries: list[int]) -> EncodedSessions:
    """One session of these queries over the symbols padding, end, unknown, a, b."""
    return EncodedSessions(
        words=np.array([word for query in queries for word in query], dtype=np.int32),
        query_starts=np.cumsum([0, *(len(query) for query in queries)]),
        session_starts=np.array([0]),
        session_ends=np.array([len(queries)]),
        ids=np.array([0]),
        vocabulary_size=5,
    )


def test_a_bigram_model_by_hand() -> None:
    model = KneserNey(sessions([A, B, END], [A, B, END], [A, END]), order=2)
    # Bigrams: (start a) 3, (a b) 2, (b end) 2, (a end) 1; so D_2 = 1 / (1 + 2 * 2) = 0.2.
    # Predecessors: a 1 (start), b 1 (a), end 2 (b, a); so D_1 = 2 / (2 + 2 * 1) = 0.5.
    # P_1(b) = (1 - 0.5) / 4 + 0.5 * 3 / 4 * 1/4 = 0.125 + 0.09375
    assert model.probability((B,)) == pytest.approx(0.21875)
    # P_2(b | a) = (2 - 0.2) / 3 + 0.2 * 2 / 3 * P_1(b)
    assert model.probability((A, B)) == pytest.approx(0.6 + 0.4 / 3 * 0.21875)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("history", [(0, 0), (A, B), (B, A), (2, 2)])
def test_probabilities_sum_to_one(order: int, history: tuple[int, int]) -> None:
    model = KneserNey(sessions([A, B, END], [A, B, B, END], [A, END], [B, END]), order)
    before = history[len(history) - order + 1 :] if order > 1 else ()
    total = sum(model.probability((*before, word)) for word in range(1, 5))
    assert total == pytest.approx(1.0)


def test_the_perplexity_counts_every_symbol() -> None:
    model = KneserNey(sessions([A, B, END], [A, END]), order=3)
    found = model.measure(sessions([A, B, END], [9, END]))
    assert found.symbols == 5
    assert found.known_symbols == 4
    assert found.known_log_likelihood > found.log_likelihood


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
