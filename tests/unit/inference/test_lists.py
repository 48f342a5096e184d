"""From ranked queries to a list: folding, relations, diversity, specificity, selection."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nextquery.inference.lists import (
    GROUPS,
    Priors,
    Relation,
    choose,
    diversify,
    group,
    rank,
    relation,
)
from nextquery.inference.near_duplicates import detect_language, fold, folding_key
from nextquery.inference.predictor import Predictor
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.weights import Floats
from nextquery.records import ScoredQuery, Suggestion

from .conftest import ModelMaker, predictor_of


@pytest.mark.parametrize(
    "copies",
    [
        ("hotel paris", "paris hotels", "hotels in paris", "the hotel paris", "hotels paris"),
        *(("city", "cities"), ("church", "churches"), ("box", "boxes"), ("car", "cars")),
    ],
)
def test_near_copies_have_the_same_folding_key(copies: tuple[str, ...]) -> None:
    assert len(set(map(folding_key, copies))) == 1


@pytest.mark.parametrize("other", ["paris", "hotel rome", "cheap hotel paris", "hostel paris"])
def test_other_queries_do_not(other: str) -> None:
    assert folding_key(other) != folding_key("hotel paris")


def test_words_that_only_look_plural_stay() -> None:
    assert folding_key("bus") == ("bus",)
    assert folding_key("glass") == ("glass",)


def test_stop_words_alone_are_kept() -> None:
    assert folding_key("the who") == ("the", "who")


def test_the_first_of_near_copies_is_kept() -> None:
    assert fold(["hotel paris", "rome", "paris hotels", "hotels in rome"]) == [0, 1, 3]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("german", "schuhe für kinder", "kinder schuh"),
        ("french", "chaussures de sport", "chaussure sport"),
        ("spanish", "hoteles baratos en madrid", "hotel barato madrid"),
        ("russian", "отели москвы", "отель москва"),
        ("turkish", "ucuz oteller", "ucuz otel"),
        ("arabic", "المدرسة", "مدرسة"),
    ],
)
def test_near_copies_of_other_languages(language: str, one: str, other: str) -> None:
    assert folding_key(one, language) == folding_key(other, language)
    assert folding_key(one, language) != folding_key(f"{other} paris", language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("отели москвы", "russian"),
        ("الفنادق", "arabic"),
        ("ξενοδοχεία", "greek"),
        ("schuhe für kinder", "german"),
        ("hoteles en el centro de madrid", "spanish"),
        ("de niro movies", "english"),
        ("red shoes", "english"),
        ("café", "english"),
    ],
)
def test_the_language_is_detected_from_the_text(text: str, language: str) -> None:
    assert detect_language(text) == language


TEXTS = st.lists(st.sampled_from(["paris", "hotel", "map", "rome", "the", "maps"]), max_size=4).map(
    " ".join
)


@pytest.mark.parametrize(
    ("suggestion", "expected"),
    [
        ("paris hotels cheap", Relation.ADDS),
        ("Paris", Relation.DROPS),
        ("rome hotels", Relation.REPLACES),
        ("the hotel of paris", Relation.SAME),
        ("museum", Relation.NEW),
        ("", Relation.NEW),
    ],
)
def test_each_relation(suggestion: str, expected: Relation) -> None:
    assert relation("paris hotels", suggestion) is expected


@given(TEXTS, TEXTS)
def test_turned_around_adding_is_dropping(one: str, other: str) -> None:
    turned = {Relation.ADDS: Relation.DROPS, Relation.DROPS: Relation.ADDS}
    result = relation(one, other)
    assert relation(other, one) is turned.get(result, result)


def test_groups_follow_the_last_query_only() -> None:
    context = ["rome map", "paris hotels"]
    texts = ["paris hotels map", "paris", "rome map hotel", "rome map"]
    assert [group(context, text) for text in texts] == ["refine", "related", "related", "next step"]
    assert group([], "paris") == "next step"
    assert set(GROUPS) == set(Relation)


def test_marginal_relevance_by_hand() -> None:
    """Relevance 1, .8, 0; cosines to the first .6 and 0: at .5 these are .1 and 0."""
    values = np.array([0.0, -1.0, -5.0])
    vectors = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    assert diversify(values, vectors, 2, 0.5) == [0, 1]
    assert diversify(values, vectors, 2, 0.6) == [0, 2]  # .32 - .36 < 0


@given(
    arrays(np.float64, st.integers(1, 12), elements=st.floats(-50, 0)),
    st.integers(0, 15),
    st.floats(0, 1),
)
def test_every_entry_is_chosen_at_most_once(values: np.ndarray, count: int, weight: float) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(values), 4))
    chosen = diversify(-np.sort(-values), vectors, count, weight)
    assert len(chosen) == len(set(chosen)) == min(count, len(values))


def test_diversity_makes_lists_less_alike_and_less_likely(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2", "w3"])
    lists = [
        predictor.suggest_many(
            [state], 5, DecodeConfig(specificity=0.0, beam=40, max_words=4, diversity=weight)
        )[0]
        for weight in (0.0, 0.8)
    ]
    alike = []
    for suggestions in lists:
        vectors = predictor.encoder.query_vectors([item.text for item in suggestions])
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        alike.append((unit @ unit.T)[np.triu_indices(len(unit), 1)].mean())
    assert alike[1] < alike[0]
    assert lists[0][0] == lists[1][0]
    assert sum(item.score for item in lists[1]) < sum(item.score for item in lists[0])


RANKED = [
    FinishedQuery("paris hotels", -1.0, 3),
    FinishedQuery("hotel paris", -2.0, 3),
    FinishedQuery("paris hostels", -3.0, 3),
    FinishedQuery("rome", -4.0, 2),
]


def vectors(texts: Sequence[str]) -> Floats:
    """One direction for what begins with a letter."""
    return np.array([[text[0] == "p", text[0] == "r"] for text in texts], np.float32)


def shown(n: int, **settings: object) -> list[Suggestion]:
    return choose(RANKED, n, DecodeConfig.model_validate(settings), str.upper, vectors)


def test_near_copies_are_left_out() -> None:
    assert [item.text for item in shown(2)] == ["paris hotels", "paris hostels"]
    assert [item.text for item in shown(2, fold=False)] == ["paris hotels", "hotel paris"]


def test_unlike_queries_come_first_where_diversity_counts() -> None:
    assert [item.text for item in shown(2, diversity=0.9)] == ["paris hotels", "rome"]


def test_a_suggestion_says_its_value_and_where_it_comes_from() -> None:
    assert shown(1) == [Suggestion("paris hotels", -1.0, "PARIS HOTELS")]
    specific = FinishedQuery("rome", -4.0, 2, log_prior=-6.0, bonus=3.0)
    (result,) = choose([specific], 1, DecodeConfig(length_normalised=True), str, vectors)
    assert (result.score, result.log_likelihood, result.log_prior) == (-0.5, -4.0, -6.0)


CONFIG = DecodeConfig(beam=10, max_words=3, fold=False, specificity=0.0)
GOOGLE = FinishedQuery("google", -2.0, symbols=2)
LOUVRE = FinishedQuery("louvre hours", -4.0, symbols=3)
KNOWN = {"paris", "rome", "a", "b", "c"}
PRIORS = {"google": -3.0, "louvre hours": -12.0}


def values(config: DecodeConfig, known: set[str], priors: dict[str, float]) -> dict[str, float]:
    result = rank([GOOGLE, LOUVRE], config, priors, known)
    return {item.text: item.value(config.length_normalised) for item in result}


def test_values_by_hand() -> None:
    half = DecodeConfig(specificity=0.5)
    assert values(half, set(), PRIORS) == {"louvre hours": 2.0, "google": -0.5}
    assert list(values(half, set(), PRIORS)) == ["louvre hours", "google"]
    per_symbol = DecodeConfig(specificity=0.5, length_normalised=True)
    assert values(per_symbol, set(), PRIORS)["louvre hours"] == pytest.approx(2.0 / 3)


def test_known_queries_gain_a_bonus_where_they_are_preferred() -> None:
    plain = DecodeConfig(specificity=0.0, known="prefer")
    assert values(plain, {"louvre hours"}, {}) == {"google": -2.0, "louvre hours": -3.0}
    both = DecodeConfig(specificity=0.5, known="prefer")
    assert values(both, {"google"}, PRIORS) == {"louvre hours": 2.0, "google": 0.5}
    free = DecodeConfig(specificity=0.5, known="free")
    assert values(free, {"google"}, PRIORS)["google"] == -0.5


def test_equal_values_are_ordered_by_text() -> None:
    result = [FinishedQuery(text, -1.0, 2) for text in ("rome", "oslo")]
    ranked = rank(result, DecodeConfig(specificity=0.5), {"rome": -2.0, "oslo": -2.0}, set())
    assert [item.text for item in ranked] == ["oslo", "rome"]


def test_priors_are_asked_for_once_and_unknown_words_share_one_probability() -> None:
    asked: list[list[str]] = []

    def score(texts: Sequence[str]) -> list[ScoredQuery]:
        asked.append(list(texts))
        return [ScoredQuery(t, -5.0, 2, ("zebra",) if t == "zebra" else ()) for t in texts]

    priors = Priors(score, words=100, known=KNOWN)
    assert priors.of(["paris", "zebra", "paris"]) == {"paris": -5.0, "zebra": -5.0 - math.log(100)}
    assert priors.of(["paris", "rome", "zebra"])["rome"] == -5.0
    assert asked == [["paris", "zebra"], ["rome", "zebra"]], "of an unknown query nothing is kept"


def test_few_priors_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextquery.inference.lists._KEPT", 2)
    asked: list[str] = []

    def score(texts: Sequence[str]) -> list[ScoredQuery]:
        asked.extend(texts)
        return [ScoredQuery(text, -1.0, 2) for text in texts]

    priors = Priors(score, words=10, known=KNOWN)
    for text in ("a", "b", "c", "c", "a"):
        priors.of([text])
    assert asked == ["a", "b", "c", "a"]


@pytest.mark.parametrize("specificity", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("form", [{}, {"copy": True}, {"decoder_context": "all"}], ids=str)
def test_a_wide_beam_gives_the_most_specific_of_all_queries(
    make_model: ModelMaker, form: dict[str, Any], specificity: float
) -> None:
    """Every query of up to two words is generated, so that the best list is known."""
    predictor = predictor_of(make_model(words=20, **form))
    wide = CONFIG.model_copy(update={"beam": 1000, "max_words": 2})
    state = predictor.encoder.encode(["w1 w2", "w3"])
    start = predictor.encoder.start()
    every = predictor.suggest_many([state], 1000, wide)[0]
    texts = [item.text for item in every]
    after, before = predictor.score_many([state, start], [texts, texts])
    value = {
        a.text: a.log_likelihood - specificity * b.log_likelihood
        for a, b in zip(after, before, strict=True)
    }
    config = wide.model_copy(update={"specificity": specificity})
    result = predictor.suggest_many([state], 10, config)[0]
    assert [item.text for item in result] == sorted(value, key=lambda text: -value[text])[:10]
    for item in result:
        assert item.score == pytest.approx(value[item.text], abs=1e-3)
        assert item.log_likelihood is not None
        assert item.log_prior is not None
        added = item.log_likelihood - specificity * item.log_prior
        assert added == pytest.approx(item.score, abs=1e-5)


def test_without_a_session_the_order_is_that_of_likelihood(predictor: Predictor) -> None:
    start = predictor.encoder.start()
    likeliest = predictor.suggest_many([start], 8, CONFIG.model_copy(update={"beam": 50}))[0]
    config = CONFIG.model_copy(update={"specificity": 0.5, "beam": 50})
    specific = predictor.suggest_many([start], 8, config)[0]
    assert [item.text for item in specific] == [item.text for item in likeliest]


def test_completions_are_ranked_by_likelihood(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2"])
    plain, specific = (
        predictor.complete(state, "w1", 8, CONFIG.model_copy(update={"specificity": share}))
        for share in (0.0, 0.9)
    )
    assert plain == specific
