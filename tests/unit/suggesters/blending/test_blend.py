"""What a trained model writes and what people typed next, in one list."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import make_untrained_hred

from nextquery import PreparedData, load
from nextquery.artifacts import further_entries, open_artifact, publish
from nextquery.errors import ArtifactError, InputError
from nextquery.inference.settings import DecodeConfig
from nextquery.service.engine import StatefulEngine, open_engine
from nextquery.suggesters.asking import SuggestOptions
from nextquery.suggesters.base import (
    BatchScorer,
    Completer,
    Decoding,
    Explainer,
    Stateful,
    Trained,
    Wrapping,
)
from nextquery.suggesters.blend import Blend, BlendSettings, make_blend
from nextquery.suggesters.loading import model_kind

CONTEXT = ("oslo hotels",)


def test_it_can_do_what_a_trained_model_can_but_be_blended_again(blend: Blend) -> None:
    for capability in (Decoding, Stateful, Completer, BatchScorer, Explainer):
        assert isinstance(blend, capability)
    assert not isinstance(blend, Trained | Wrapping)


def test_what_people_typed_next_leads_and_generated_queries_follow(
    blend: Blend, parts: list[Path]
) -> None:
    any_text = blend.config.model_copy(update={"quality": False})
    found = blend.suggest(CONTEXT, 8, config=any_text)
    assert found[0].text == "oslo hotel prices"
    assert "after the last query" in found[0].source
    counted = {each.text for part in parts[1:] for each in load(part).suggest(CONTEXT, 20)}
    trained: Any = load(parts[0])
    config = trained.config.model_copy(update={"quality": False, "specificity": 0.25})
    written = {each.text for each in trained.suggest(CONTEXT, 10, config=config)}
    assert {each.text for each in found} <= counted | written
    assert {each.text for each in found} - counted
    # With the gate, nothing of a count model is left out.
    assert {each.text for each in blend.suggest(CONTEXT, 8)} <= counted | written


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
        shown = {each.text: each for each in blend.suggest(CONTEXT, 9, config=config)}
        value = likely.log_likelihood - specificity * before.log_likelihood + 1
        assert shown["oslo hotel prices"].score == pytest.approx(value, abs=1e-3)
    assert shown["oslo hotel prices"].log_likelihood == pytest.approx(
        likely.log_likelihood, abs=1e-3
    )


def test_unknown_words_and_lengths_are_kept_to(blend: Blend) -> None:
    short = DecodeConfig(max_words=2)
    assert all(len(each.text.split()) <= 2 for each in blend.suggest(CONTEXT, 9, config=short))
    only = DecodeConfig(known="only")
    found = blend.suggest(CONTEXT, 9, config=only)
    assert found
    assert all(each.text in blend.guard.tables.queries for each in found)


def test_words_that_never_stood_side_by_side_come_last(blend: Blend) -> None:
    texts = [each.text for each in blend.suggest(("lima museum",), 30)]
    pairs = {tuple(q.split()[i : i + 2]) for q in blend.guard.tables.queries for i in (0, 1)}
    fine = [all(p in pairs for p in zip(t.split(), t.split()[1:], strict=False)) for t in texts]
    assert fine == sorted(fine, reverse=True)


def test_a_state_that_grows_gives_the_list_of_the_whole_session(blend: Blend) -> None:
    (state,) = blend.encode_many([("rome flights",)])
    grown = blend.extend(state, "Rome  cheap flights")
    whole = blend.suggest(("rome flights", "rome cheap flights"), 5)
    assert [each.text for each in blend.suggest_after([grown], 5)[0]] == [e.text for e in whole]


def test_lists_of_many_sessions_are_those_of_each(blend: Blend) -> None:
    contexts = [CONTEXT, (), ("never seen",), ("rome museum", "rome flights")]
    together = blend.suggest_many(contexts, 6)
    for context, found in zip(contexts, together, strict=True):
        assert [each.text for each in found] == [each.text for each in blend.suggest(context, 6)]


def test_completions_come_from_both(blend: Blend, parts: list[Path]) -> None:
    any_text = blend.config.model_copy(update={"quality": False})
    found = [each.text for each in blend.complete(CONTEXT, "oslo h", 9, config=any_text)]
    assert found[0] == "oslo hotel prices"
    counted = {each.text for each in load(parts[1]).complete(CONTEXT, "oslo h", 9)}  # type: ignore[attr-defined]
    assert set(found) - counted
    assert blend.complete(CONTEXT, "", 4) == blend.suggest(CONTEXT, 4)


def test_a_service_keeps_its_states(blend: Blend, tmp_path: Path) -> None:
    blend.save(tmp_path / "blend")
    assert model_kind(tmp_path / "blend").neural
    engine = open_engine(tmp_path / "blend", None)
    assert isinstance(engine, StatefulEngine)
    assert engine.specificity == blend.config.specificity == 0.25
    found = engine.suggest([CONTEXT], SuggestOptions(n=4, diversity=0.5))
    assert len(found[0]) == 4
    assert engine.explains


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
    plain = {each.text: each.score for each in other.suggest(CONTEXT, 40)}
    weighed = other.config.model_copy(update={"usefulness": 2.0})
    found = other.suggest(CONTEXT, 5, config=weighed)
    [judged] = other.usefulness_many([CONTEXT], [[each.text for each in found]])
    for each, useful in zip(found, judged, strict=True):
        assert each.usefulness == pytest.approx(useful)
        assert each.score == pytest.approx(plain[each.text] + 2 * math.log(useful), abs=1e-3)
