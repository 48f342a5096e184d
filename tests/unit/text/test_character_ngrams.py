"""Which n-grams a word has, and in which bucket each of them is."""

import numpy as np

from nextquery.text.vectors import MOST_CHARACTERS, NgramTable, bucket, ngrams
from nextquery.text.vocabulary import SPECIAL


def test_buckets_never_change() -> None:
    """A trained table means nothing under another hash."""
    found = [bucket(each, 1 << 16) for each in ("<re", "ed>", "<é>", "日本語")]
    assert found == [19269, 25553, 43543, 21221]


def test_short_words_have_n_grams_and_special_symbols_none() -> None:
    assert ngrams("a") == ["<a>"]
    assert all(ngrams(symbol) == [] for symbol in SPECIAL)
    assert NgramTable.of(SPECIAL, 9).buckets.size == 0


def test_a_slip_shares_n_grams_with_its_word_and_an_order_has_its_own() -> None:
    assert len({*ngrams("restaurant")} & {*ngrams("resturant")}) >= 10
    assert not {*ngrams("stop")} & {*ngrams("pots")}


def test_a_word_of_any_length_has_few_n_grams() -> None:
    assert len(ngrams("x" * 100_000)) == len(ngrams("x" * MOST_CHARACTERS)) < 120


def test_rows_can_be_taken_in_any_order_and_joined() -> None:
    words = ["red", "<eoq>", "suede", "shoes"]
    table = NgramTable.of(words, 97)
    rows = np.array([3, 1, 0, 3])
    taken, expected = table.take(rows), NgramTable.of([words[row] for row in rows], 97)
    joined = NgramTable.of(words[:2], 97).joined(NgramTable.of(words[2:], 97))
    for found, wanted in ((taken, expected), (joined, table)):
        assert found.buckets.tolist() == wanted.buckets.tolist()
        assert found.starts.tolist() == wanted.starts.tolist()
    assert len(table.take(np.zeros(0, dtype=np.int64))) == 0


def test_the_mean_is_over_the_n_grams_of_the_word() -> None:
    vectors = np.random.default_rng(0).normal(size=(97, 4)).astype(np.float32)
    words = ["<pad>", "red", "<unk>", "suede", "<eoq>"]
    found = NgramTable.of(words, 97).means(vectors)
    for word, row in zip(words, found, strict=True):
        rows = [vectors[bucket(each, 97)] for each in ngrams(word)]
        expected = np.mean(rows, axis=0) if rows else np.zeros(4)
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6)
    assert NgramTable.of(["<pad>"], 97).means(vectors).tolist() == [[0.0] * 4]
