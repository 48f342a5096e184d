"""Ranking by what the session adds."""

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest

from nextquery.inference.lists import Priors, rank
from nextquery.inference.predictor import Predictor
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import DecodeConfig
from nextquery.records import ScoredQuery

from ..conftest import ModelMaker, predictor_of

CONFIG = DecodeConfig(beam=10, max_words=3, fold=False, specificity=0.0)


GOOGLE = FinishedQuery("google", -2.0, symbols=2)
LOUVRE = FinishedQuery("louvre hours", -4.0, symbols=3)
KNOWN = {"paris", "rome", "a", "b", "c"}
PRIORS = {"google": -3.0, "louvre hours": -12.0}


def values(config: DecodeConfig, known: set[str], priors: dict[str, float]) -> dict[str, float]:
    found = rank([GOOGLE, LOUVRE], config, priors, known)
    return {each.text: each.value(config.length_normalised) for each in found}


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
    found = [FinishedQuery(text, -1.0, 2) for text in ("rome", "oslo")]
    ranked = rank(found, DecodeConfig(specificity=0.5), {"rome": -2.0, "oslo": -2.0}, set())
    assert [each.text for each in ranked] == ["oslo", "rome"]


def test_priors_are_asked_for_once_and_unknown_words_share_one_probability() -> None:
    asked: list[list[str]] = []

    def score(texts: object) -> list[ScoredQuery]:
        asked.append(list(texts))  # type: ignore[call-overload]
        return [ScoredQuery(t, -5.0, 2, ("zebra",) if t == "zebra" else ()) for t in asked[-1]]

    priors = Priors(score, words=100, known=KNOWN)
    assert priors.of(["paris", "zebra", "paris"]) == {
        "paris": -5.0,
        "zebra": -5.0 - math.log(100),
    }
    assert priors.of(["paris", "rome", "zebra"])["rome"] == -5.0
    assert asked == [["paris", "zebra"], ["rome", "zebra"]], "of an unknown query nothing is kept"


def test_few_priors_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextquery.inference.lists._KEPT", 2)
    asked: list[str] = []

    def score(texts: object) -> list[ScoredQuery]:
        asked.extend(texts)  # type: ignore[arg-type]
        return [ScoredQuery(text, -1.0, 2) for text in texts]  # type: ignore[attr-defined]

    priors = Priors(score, words=10, known=KNOWN)
    for text in ("a", "b", "c", "c", "a"):
        priors.of([text])
    assert asked == ["a", "b", "c", "a"]


def test_a_full_table_is_not_read_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextquery.inference.lists._KEPT", 2)

    class Uncopied(OrderedDict[str, float]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all keys were read")

    texts_of_known = {"a", "b", "c", "d"}
    priors = Priors(
        lambda texts: [ScoredQuery(text, -1.0, 2) for text in texts], 10, texts_of_known
    )
    priors._kept = Uncopied()
    for text in ("a", "b", "c", "d"):
        priors.of([text])
    assert len(priors._kept) == 2
    assert priors._kept.get("d") == -1.0


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
    texts = [each.text for each in every]
    after, before = predictor.score_many([state, start], [texts, texts])
    value = {
        a.text: a.log_likelihood - specificity * b.log_likelihood
        for a, b in zip(after, before, strict=True)
    }
    config = wide.model_copy(update={"specificity": specificity})
    found = predictor.suggest_many([state], 10, config)[0]
    assert [each.text for each in found] == sorted(value, key=lambda text: -value[text])[:10]
    for each in found:
        assert each.score == pytest.approx(value[each.text], abs=1e-3)
        assert each.log_likelihood is not None
        assert each.log_prior is not None
        added = each.log_likelihood - specificity * each.log_prior
        assert added == pytest.approx(each.score, abs=1e-5)


def test_without_a_session_the_order_is_that_of_likelihood(predictor: Predictor) -> None:
    start = predictor.encoder.start()
    likeliest = predictor.suggest_many([start], 8, CONFIG.model_copy(update={"beam": 50}))[0]
    config = CONFIG.model_copy(update={"specificity": 0.5, "beam": 50})
    specific = predictor.suggest_many([start], 8, config)[0]
    assert [each.text for each in specific] == [each.text for each in likeliest]


def test_fewer_are_the_first_of_more(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2"])
    config = CONFIG.model_copy(update={"specificity": 0.5})
    more, fewer = (predictor.suggest_many([state], n, config)[0] for n in (20, 4))
    assert more[:4] == fewer


def test_completions_are_ranked_by_likelihood(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2"])
    plain, specific = (
        predictor.complete(state, "w1", 8, CONFIG.model_copy(update={"specificity": share}))
        for share in (0.0, 0.9)
    )
    assert plain == specific
