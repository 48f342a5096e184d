"""The features of rankers by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nextquery.ranking.cases import BackgroundCounts, Backgrounds, CaseSet, RankingCase
from nextquery.ranking.features import (
    AUTHORS_FEATURES,
    BASELINE_FEATURES,
    RECENT,
    SEMANTIC_FEATURES,
    FeatureTable,
    QueryVectors,
    authors_features,
    baseline_features,
    suffix_counts,
)
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM, QVMMSettings

COUNTS = BackgroundCounts(
    {"cat": 10, "cats": 4, "dog food": 6}, {"cat": {"cats": 3, "dog food": 1}}
)
BACKGROUND = Backgrounds(COUNTS)


def table(context: tuple[str, ...]) -> FeatureTable:
    case = RankingCase(1, context, "cat", ("dog food", "cats"), 1, len(context) + 1)
    return baseline_features(CaseSet((case,)), BACKGROUND, np.array([-1.5, -0.5]))


def test_the_list_of_the_paper_has_eighteen_features() -> None:
    assert len(BASELINE_FEATURES) == 18
    assert table(("cat",)).names == tuple(BASELINE_FEATURES)


def test_pairwise_and_candidate_features_by_hand() -> None:
    features = table(("bird", "cat"))

    assert features.column("adj_count").tolist() == [1, 3]
    assert features.column("anchor_frequency").tolist() == [10, 10]
    assert features.column("anchor_levenshtein").tolist() == [8, 1]
    assert features.column("characters").tolist() == [8, 4]
    assert features.column("words").tolist() == [2, 1]
    assert features.column("frequency").tolist() == [6, 4]
    assert features.column("qvmm").tolist() == [-1.5, -0.5]


def test_context_features_by_hand() -> None:
    features = table(("bird", "cat"))

    # edits: bird -> dog food 7 (the d stays), cat -> dog food 8; bird -> cats 4, cat -> cats 1
    assert features.column("context_levenshtein").tolist() == [7.5, 2.5]
    # trigrams of " cat ": ca, cat, at; of " cats ": ca, cat, ats, ts: 2 shared of 3 and 4
    assert features.column("similarity_1")[1] == pytest.approx(2 / np.sqrt(3 * 4))
    assert features.column("similarity_1")[0] == 0
    assert features.column("similarity_2").tolist() == [0, 0]


def test_similarity_looks_at_the_most_recent_queries_of_a_long_context() -> None:
    context = ("cats", *(f"x{number}" for number in range(RECENT)))

    longer = table(context)
    shorter = table(context[:RECENT])

    assert all(longer.column(f"similarity_{back}")[1] == 0 for back in range(1, RECENT + 1))
    assert shorter.column(f"similarity_{RECENT}")[1] == pytest.approx(1.0)


def test_columns_are_added_by_name() -> None:
    features = table(("cat",)).with_columns({"hred:sum": np.array([1.0, 2.0])})

    assert features.column("hred:sum").tolist() == [1.0, 2.0]
    assert features.values.shape == (2, 19)


def test_no_cases_give_an_empty_table() -> None:
    assert baseline_features(CaseSet(()), BACKGROUND, np.zeros(0)).values.shape == (0, 18)


def test_a_case_has_the_counts_that_its_user_sees() -> None:
    rest = BackgroundCounts({"cat": 8, "cats": 2, "dog food": 5}, {"cat": {"cats": 1}})
    case = RankingCase(1, ("cat",), "cat", ("dog food", "cats"), 1, 2, user="me")
    features = baseline_features(CaseSet((case,)), Backgrounds(COUNTS, [rest]), np.zeros(2))

    assert features.column("adj_count").tolist() == [0, 1]
    assert features.column("anchor_frequency").tolist() == [8, 8]
    assert features.column("frequency").tolist() == [5, 2]


def test_the_authors_features_by_hand() -> None:
    case = RankingCase(1, ("cattle", "ox", "cats"), "cats", ("ox cart", "cats paw"), 1, 4)
    columns = authors_features(CaseSet((case,)), np.array([0.0, 7.0]))

    # "cats" is newest: its trigrams cat, ats are both in "cats paw"; "ox" is too short for any
    assert columns["shared_trigrams_1"].tolist() == [0, 2]
    assert columns["shared_trigrams_2"].tolist() == [0, 0]
    assert columns["shared_trigrams_3"].tolist() == [0, 1]
    assert columns["suffix_count"].tolist() == [0, 7]
    assert len(AUTHORS_FEATURES) == 18
    assert set(columns) == set(AUTHORS_FEATURES) - set(BASELINE_FEATURES)


def test_like_their_code_the_oldest_ten_queries_of_a_long_context_are_looked_at() -> None:
    context = ("cats", *(f"x{number}" for number in range(RECENT)))
    case = RankingCase(1, context, "", ("cats",), 0, len(context) + 1)
    columns = authors_features(CaseSet((case,)), np.zeros(1))

    assert columns[f"shared_trigrams_{RECENT}"].tolist() == [2]


class CountingEncoder:
    """Vectors by the letters a and b; remembers which texts it was given."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.seen += texts
        return [[3.0 * text.count("a"), 3.0 * text.count("b")] for text in texts]


def case(*context: str) -> RankingCase:
    return RankingCase(1, context, context[-1] if context else "", ("a", "ab"), 0, 3)


def test_cosines_with_the_last_and_the_nearest_earlier_query() -> None:
    result = QueryVectors(CountingEncoder()).columns(CaseSet((case("ab", "b", "a"), case("b"))))

    half = np.sqrt(0.5)
    assert list(result) == list(SEMANTIC_FEATURES)
    assert result["meaning_last"].tolist() == pytest.approx([1.0, half, 0.0, half])
    assert result["meaning_context"].tolist() == pytest.approx([half, 1.0, 0.0, half])


def test_without_context_or_meaning_there_is_no_cosine() -> None:
    result = QueryVectors(CountingEncoder()).columns(CaseSet((case(), case("xyz"))))

    assert not any(result["meaning_last"])
    assert not any(result["meaning_context"])


def test_no_text_is_encoded_twice() -> None:
    encoder = CountingEncoder()
    vectors = QueryVectors(encoder)
    vectors.columns(CaseSet((case("a", "b"), case("b", "a"))))
    vectors.columns(CaseSet((case("b", "ba"),)))

    assert encoder.seen == ["a", "b", "ab", "ba"]


def test_counts_at_the_longest_known_suffix_by_hand(prepared: Any, tiny_log: Any) -> None:
    sessions = [("u", ("a", "b", "c"))] * 3 + [("v", ("x", "b", "d"))] * 2
    qvmm = fit_model(QVMM, prepared(tiny_log(sessions)), QVMMSettings(pruning=0))
    contexts = [("a", "b"), ("y", "b"), ("y",), ("a", "b now")]
    cases = CaseSet(
        RankingCase(n, context, "", ("c", "d"), 0, 2) for n, context in enumerate(contexts)
    )

    assert suffix_counts(qvmm, cases).reshape(4, 2).tolist() == [[3, 0], [3, 2], [0, 0], [3, 0]]
    assert suffix_counts(qvmm, CaseSet(())).tolist() == []


def test_a_candidate_never_typed_counts_nothing(prepared: Any, tiny_log: Any) -> None:
    qvmm = fit_model(QVMM, prepared(tiny_log([("u", ("a", "b"))])))
    cases = CaseSet((RankingCase(0, ("a",), "a", ("never", "b"), 1, 2),))

    assert suffix_counts(qvmm, cases).tolist() == [0, 1]
