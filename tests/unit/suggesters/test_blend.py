"""Blends, ensembles and the trivial rules that models are compared with."""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.conftest import make_untrained_hred

from nextquery import load
from nextquery.artifacts import further_entries, open_artifact, publish
from nextquery.errors import ArtifactError, InputError, NextqueryError
from nextquery.guard.guard import Guard
from nextquery.guard.tables import write_tables
from nextquery.inference.settings import DecodeConfig
from nextquery.logs.data_folder import PreparedData
from nextquery.records import ScoredQuery, Suggestion
from nextquery.service.engine import SuggestQuestion, open_engine
from nextquery.suggesters.base import BatchScorer, Scorer, SuggestOptions, Trained
from nextquery.suggesters.blend import (
    CASES_OF_ALL,
    Blend,
    BlendSettings,
    Mixture,
    Parts,
    fit_mixture,
    make_blend,
)
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import load_artifact, model_kind
from nextquery.suggesters.neural import Ensemble
from nextquery.suggesters.popularity import DropWords, LastCompletions, Popularity

CONTEXT = ("oslo hotels",)


def test_what_people_typed_next_leads_and_generated_queries_follow(
    blend: Blend, parts: list[Path]
) -> None:
    any_text = blend.config.model_copy(update={"quality": False})
    result = blend.suggest(CONTEXT, 8, config=any_text)
    assert result[0].text == "oslo hotel prices"
    assert "after the last query" in result[0].source
    counted = {item.text for part in parts[1:] for item in load(part).suggest(CONTEXT, 20)}
    trained: Any = load(parts[0])
    config = trained.config.model_copy(update={"quality": False, "specificity": 0.25})
    written = {item.text for item in trained.suggest(CONTEXT, 10, config=config)}
    assert {item.text for item in result} <= counted | written
    assert {item.text for item in result} - counted


def test_a_likelihood_is_the_mixture_of_the_parts(blend: Blend, parts: list[Path]) -> None:
    text = "oslo hotel prices"
    weights = list(blend.weights().values())[-1]  # both count models have candidates
    single = [math.exp(load(p).score(CONTEXT, [text])[0].log_likelihood) for p in parts]
    mixed = sum(w * p for w, p in zip(weights.values(), single, strict=True))
    assert blend.score(CONTEXT, [text])[0].log_likelihood == pytest.approx(
        math.log(mixed), abs=1e-4
    )


def test_a_value_is_the_formula(blend: Blend) -> None:
    """Likelihood, less what is likely after anything, and 1 for a query that people typed."""
    (likely,) = blend.score(CONTEXT, ["oslo hotel prices"])
    (before,) = blend.score((), ["oslo hotel prices"])
    for specificity in (0.0, 0.25, 1.0):
        config = blend.config.model_copy(update={"specificity": specificity})
        shown = {item.text: item for item in blend.suggest(CONTEXT, 9, config=config)}
        value = likely.log_likelihood - specificity * before.log_likelihood + 1
        assert shown["oslo hotel prices"].score == pytest.approx(value, abs=1e-3)
    assert shown["oslo hotel prices"].log_likelihood == pytest.approx(
        likely.log_likelihood, abs=1e-3
    )


def test_unknown_words_and_lengths_are_kept_to(blend: Blend) -> None:
    short = DecodeConfig(max_words=2)
    assert all(len(item.text.split()) <= 2 for item in blend.suggest(CONTEXT, 9, config=short))
    only = DecodeConfig(known="only")
    result = blend.suggest(CONTEXT, 9, config=only)
    assert result
    assert all(item.text in blend.guard.tables.queries for item in result)


def test_words_that_never_stood_side_by_side_come_last(blend: Blend) -> None:
    texts = [item.text for item in blend.suggest(("lima museum",), 30)]
    pairs = {tuple(q.split()[i : i + 2]) for q in blend.guard.tables.queries for i in (0, 1)}
    fine = [all(p in pairs for p in zip(t.split(), t.split()[1:], strict=False)) for t in texts]
    assert fine == sorted(fine, reverse=True)


def test_a_state_that_grows_gives_the_list_of_the_whole_session(blend: Blend) -> None:
    (state,) = blend.encode_many([("rome flights",)])
    grown = blend.extend(state, "Rome  cheap flights")
    whole = blend.suggest(("rome flights", "rome cheap flights"), 5)
    assert [item.text for item in blend.suggest_after([grown], 5)[0]] == [e.text for e in whole]


@pytest.fixture(scope="module")
def judging_guard(town_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Guard:
    """A guard that judges text, which those of the untrained models do not."""
    target = tmp_path_factory.mktemp("judging") / "model"
    with publish(target, "adjacency", {}) as folder:
        write_tables(town_data, folder)
    return Guard.open(target)


def test_generated_text_is_judged_in_lists_and_completions(
    blend: Blend, judging_guard: Guard, tmp_path: Path
) -> None:
    """An untrained network writes what nobody types; `quality = false` shows it."""
    blend.save(tmp_path / "blend")
    model = Blend.load(tmp_path / "blend", judging_guard)
    any_text = model.config.model_copy(update={"quality": False})
    typed = judging_guard.own_text(CONTEXT)

    def flawed(items: list[Suggestion]) -> list[str]:
        return [item.text for item in items if judging_guard.flaw(item.text, typed) is not None]

    assert flawed(model.suggest(CONTEXT, 30, config=any_text))
    shown = model.suggest(CONTEXT, 30)
    assert "oslo hotel prices" in [item.text for item in shown]
    assert not flawed(shown)
    assert flawed(model.complete(CONTEXT, "oslo h", 30, config=any_text))
    completions = model.complete(CONTEXT, "oslo h", 30)
    assert completions
    assert not flawed(completions)


def test_without_quality_lists_are_those_of_a_model_without_the_gate(
    blend: Blend, parts: list[Path], judging_guard: Guard, town_data: PreparedData, tmp_path: Path
) -> None:
    """Models of earlier versions have no counts of typed text, and so no gate."""
    blend.save(tmp_path / "blend")
    contexts = [session.queries[:-1] for session in town_data.sessions("test")][:20]
    contexts += [(), ("oslo hotels", "rome museum"), ("never seen",)]
    for folder in (tmp_path / "blend", parts[0]):
        ungated: Any = load(folder)
        assert ungated.guard.tables.typed_text is None
        model: Any = load_artifact(open_artifact(folder), judging_guard)
        off = model.config.model_copy(update={"quality": False})
        expected = ungated.suggest_many(contexts, 8)
        assert model.suggest_many(contexts, 8, config=off) == expected
        assert model.suggest_many(contexts, 8) != expected
        for prefix in ("o", "rome m", "lima hotel p"):
            completions = ungated.complete(CONTEXT, prefix, 8)
            assert model.complete(CONTEXT, prefix, 8, config=off) == completions


def test_lists_of_many_sessions_are_those_of_each(blend: Blend) -> None:
    contexts = [CONTEXT, (), ("never seen",), ("rome museum", "rome flights")]
    together = blend.suggest_many(contexts, 6)
    for context, result in zip(contexts, together, strict=True):
        assert [item.text for item in result] == [item.text for item in blend.suggest(context, 6)]


def test_completions_come_from_both(blend: Blend, parts: list[Path]) -> None:
    any_text = blend.config.model_copy(update={"quality": False})
    result = [item.text for item in blend.complete(CONTEXT, "oslo h", 9, config=any_text)]
    assert result[0] == "oslo hotel prices"
    counted = {item.text for item in load(parts[1]).complete(CONTEXT, "oslo h", 9)}  # type: ignore[attr-defined]
    assert set(result) - counted
    assert blend.complete(CONTEXT, "", 4) == blend.suggest(CONTEXT, 4)


def test_a_service_keeps_its_states(blend: Blend, tmp_path: Path) -> None:
    blend.save(tmp_path / "blend")
    assert model_kind(tmp_path / "blend").neural
    engine = open_engine(tmp_path / "blend", None)
    assert not engine.immediate
    assert engine.facts.specificity == blend.config.specificity == 0.25
    [result] = engine.answer([SuggestQuestion(CONTEXT, SuggestOptions(n=4, diversity=0.5))])
    assert len(result) == 4
    assert engine.facts.explains


@pytest.mark.parametrize("weights", [[[1.0, 0.0]], np.full((4, 3), 0.5).tolist(), "none"])
def test_weights_that_do_not_fit_are_refused(blend: Blend, tmp_path: Path, weights: object) -> None:
    blend.save(tmp_path / "blend")
    whole = open_artifact(tmp_path / "blend")
    entries = further_entries(whole.manifest) | {"weights": weights}
    with publish(tmp_path / "bad", "blend", entries) as folder:
        whole.copy_files(folder, whole.manifest["files"])
    with pytest.raises(ArtifactError, match="make it again"):
        load(tmp_path / "bad")


def test_a_damaged_part_is_refused(blend: Blend, tmp_path: Path) -> None:
    blend.save(tmp_path / "blend")
    shutil.rmtree(tmp_path / "blend/members/0")
    with pytest.raises(ArtifactError):
        load(tmp_path / "blend")


def test_usefulness_counts_by_the_trained_model_s_head(
    blend: Blend, parts: list[Path], town_data: PreparedData, tmp_path: Path
) -> None:
    assert not blend.judges_usefulness
    weighed = blend.config.model_copy(update={"usefulness": 2.0})
    with pytest.raises(InputError, match="no usefulness head"):
        blend.suggest(CONTEXT, 3, config=weighed)
    make_untrained_hred(town_data, tmp_path / "hred", usefulness=True)
    settings = BlendSettings(cases=200)
    other = make_blend(tmp_path / "hred", parts[1:], town_data, tmp_path / "blend", settings)
    assert other.judges_usefulness
    plain = {item.text: item.score for item in other.suggest(CONTEXT, 40)}
    weighed = other.config.model_copy(update={"usefulness": 2.0})
    result = other.suggest(CONTEXT, 5, config=weighed)
    [judged] = other.usefulness_many([CONTEXT], [[item.text for item in result]])
    for item, useful in zip(result, judged, strict=True):
        assert item.usefulness == pytest.approx(useful)
        assert item.score == pytest.approx(plain[item.text] + 2 * math.log(useful), abs=1e-3)


@pytest.fixture(scope="module")
def asked(parts: list[Path]) -> Parts:
    trained, *members = map(load, parts)
    assert isinstance(trained, Trained)
    return Parts(trained, members, Mixture.of(np.full((4, 3), 1 / 3)))


def test_the_row_says_who_has_candidates(asked: Parts) -> None:
    assert asked.row(("oslo hotels",)) == 3
    assert asked.row(()) == 4
    assert asked.row(("museum in oslo",)) == 2  # its words are known, the query is not


def test_a_word_that_the_trained_model_lacks_is_one_of_many(
    asked: Parts, parts: list[Path]
) -> None:
    trained = load(parts[0])
    assert isinstance(trained, Trained)
    scored = trained.score((), ["oslo zyzzyva"])
    trained_log = asked.logs((), scored)[0, 0]
    assert trained_log == pytest.approx(
        scored[0].log_likelihood - math.log(len(trained.model.vocabulary))
    )


def test_probabilities_are_weighed_by_who_speaks() -> None:
    mixture = Mixture(np.array([[1.0, 0.0], [0.25, 0.75]]))
    logs = np.log([[0.1, 0.2], [0.5, 0.1]])
    assert np.exp(mixture.log(0, logs)) == pytest.approx([0.1, 0.2])
    assert np.exp(mixture.log(1, logs)) == pytest.approx([0.4, 0.125])


def test_each_combination_has_a_row_of_its_own_and_no_session_the_last() -> None:
    mixture = Mixture.of(np.eye(4)[[0, 1, 2, 3, 0, 1, 2, 3]])
    combinations = [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]
    assert {mixture.row(["paris"], item) for item in combinations} == set(range(8))
    assert {mixture.row([], item) for item in combinations} == {8}
    assert mixture.weights[8] == pytest.approx([0.25] * 4)


def test_two_cases_by_hand() -> None:
    """Each member is right once and never otherwise: half and half, wherever the cases stand."""
    right, wrong = 0.0, -np.inf
    result = fit_mixture(np.array([0, 1]), np.array([[right, wrong], [wrong, right]]))
    begun = CASES_OF_ALL / 2
    assert result.weights[0] == pytest.approx(
        [(1 + begun) / (1 + 2 * begun), begun / (1 + 2 * begun)]
    )
    assert result.weights[1] == pytest.approx(result.weights[0][::-1])


def test_the_known_weights_of_simulated_cases_are_estimated() -> None:
    """Member 0 is right in 30 % of the cases where the other speaks, in 90 % where it does not."""
    generator = np.random.default_rng(3)
    rows = generator.integers(0, 2, 20_000)
    first = generator.random(20_000) < np.where(rows == 1, 0.3, 0.9)
    likely, unlikely = np.log(0.9), np.log(0.001)
    logs = np.where(first[:, None], [likely, unlikely], [unlikely, likely])
    weights = fit_mixture(rows, logs).weights
    assert weights[:2, 0] == pytest.approx([0.9, 0.3], abs=0.02)


def test_a_row_without_cases_has_the_weights_of_all() -> None:
    logs = np.log(np.tile([[0.2, 0.1, 0.4], [0.4, 0.1, 0.2]], (50, 1)))
    weights = fit_mixture(np.zeros(100, np.int64), logs).weights
    assert weights[3] == pytest.approx(weights[0], abs=0.05)


@given(arrays(np.float64, (12, 3), elements=st.floats(-60, 0)), st.integers(0, 3))
def test_learnt_weights_are_weights_and_no_worse_than_equal_ones(
    logs: np.ndarray, row: int
) -> None:
    result = fit_mixture(np.full(12, row), logs)
    assert result.weights.shape == (5, 3)
    assert (result.weights >= 0).all()
    assert result.weights.sum(axis=1) == pytest.approx(1.0)
    equal = Mixture(np.full((4, 3), 1 / 3))
    assert result.log(row, logs.T).sum() >= equal.log(row, logs.T).sum() - 1e-6


def test_counts_weigh_most_where_they_have_seen_the_last_query(blend: Blend) -> None:
    """The log's next queries follow from the last one; the trained model has random weights."""
    *_, both = blend.weights().values()
    assert both["adjacency"] > 0.5
    assert both["adjacency"] > both["hred"]
    assert sum(both.values()) == pytest.approx(1.0)


def test_the_same_sessions_give_the_same_weights(
    blend: Blend, parts: list[Path], town_data: PreparedData, tmp_path: Path
) -> None:
    again = make_blend(parts[0], parts[1:], town_data, tmp_path / "b", BlendSettings(cases=200))
    assert again.weights() == blend.weights()
    entries = open_artifact(tmp_path / "b").manifest
    assert (entries["base"], entries["members"]) == ("hred", ["adjacency", "shortcuts"])


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ((1, 2), "trained model first"),
        ((0, 0), "only the first is not a count model"),
        ((0,), "1 to 4 count models"),
    ],
)
def test_other_parts_are_refused(
    order: tuple[int, ...], said: str, parts: list[Path], town_data: PreparedData, tmp_path: Path
) -> None:
    base, *members = (parts[position] for position in order)
    with pytest.raises(InputError, match=said):
        make_blend(base, members, town_data, tmp_path / "blend")
    assert not (tmp_path / "blend").exists()


def test_a_log_without_validation_sessions_is_refused(
    parts: list[Path], prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data = prepared(tiny_log([("ann", ["a", "b"])]))
    with pytest.raises(NextqueryError, match="validation"):
        make_blend(parts[0], parts[1:], data, tmp_path / "blend")


class Member:
    """Gives each text a probability of its own."""

    def __init__(self, **probabilities: float) -> None:
        self._probabilities = probabilities

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        return [self._scored(text) for text in candidates]

    def _scored(self, text: str) -> ScoredQuery:
        probability = self._probabilities.get(text, 0.0)
        log = math.log(probability) if probability else -math.inf
        return ScoredQuery(text, log, 2, () if probability else (text,))


class Together(Member):
    """The same for many contexts at once, and for nothing else."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        raise AssertionError("asked one by one")

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        return [[self._scored(text) for text in texts] for texts in candidates]


def test_probabilities_are_averaged_not_their_logarithms() -> None:
    members: list[Scorer] = [Member(rome=0.4, oslo=0.01), Member(rome=0.02, oslo=0.01)]
    rome, oslo = Ensemble(members).score(["italy"], ["rome", "oslo"])

    assert math.exp(rome.log_likelihood) == pytest.approx(0.21)
    assert math.exp(oslo.log_likelihood) == pytest.approx(0.01)
    assert (rome.text, rome.words, rome.unknown) == ("rome", 2, ())


def test_what_one_member_does_not_know_the_others_still_score() -> None:
    (rome,) = Ensemble([Member(rome=0.4), Member()]).score([], ["rome"])

    assert math.exp(rome.log_likelihood) == pytest.approx(0.2)
    assert rome.unknown == ("rome",)


def test_members_that_score_together_are_asked_together() -> None:
    ensemble = Ensemble([Together(rome=0.4), Member(rome=0.2, oslo=0.2)])
    result = ensemble.score_many([["a"], ["b"]], [["rome"], ["oslo", "rome"]])

    assert isinstance(ensemble, BatchScorer)
    assert [[item.text for item in scores] for scores in result] == [["rome"], ["oslo", "rome"]]
    assert math.exp(result[1][1].log_likelihood) == pytest.approx(0.3)


@pytest.fixture
def popularity(town_data: PreparedData, tmp_path: Path) -> Popularity:
    fit_model(Popularity, town_data).save(tmp_path / "popularity")
    return Popularity.load(tmp_path / "popularity")


def test_words_of_the_last_query_are_dropped_then_popular_queries_follow(
    popularity: Popularity,
) -> None:
    rule = DropWords(popularity)
    texts = [item.text for item in rule.suggest(["rome", "oslo hotel prices"], 9)]
    dropped = ["oslo hotel", "oslo prices", "hotel prices", "oslo", "hotel", "prices"]
    assert texts[: len(dropped)] == dropped
    popular = [item.text for item in popularity.suggest([], 9)]
    assert texts[len(dropped) :] == [text for text in popular if text not in texts[:6]][:3]
    assert [item.text for item in rule.suggest(["oslo", "oslo hotel"], 1)] == ["hotel"]
    assert rule.suggest([], 2) == popularity.suggest([], 2)


def test_the_last_query_is_completed(popularity: Popularity) -> None:
    rule = LastCompletions(popularity)
    assert [item.text for item in rule.suggest(["oslo hotel"], 5)] == ["oslo hotel prices"]
    assert rule.suggest([], 5) == []
