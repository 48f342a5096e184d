"""Re-rankers: features, accepted rates, training, serving and switching off."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import make_untrained_hred
from tests.simulated_visitors import Lister, SimulatedService, simulate
from tests.unit.feedback.made_up import VISITORS, acceptance, chance_sessions, lister
from tests.unit.feedback.test_report import shown

from nextquery import load
from nextquery.artifacts import MANIFEST, open_artifact, sha256
from nextquery.errors import ArtifactError, ChecksumError, InputError
from nextquery.feedback.acceptance import Examination, PositionBias
from nextquery.feedback.compare import guard_reranker
from nextquery.feedback.events import ListedSuggestion
from nextquery.feedback.impressions import Feedback, join_events
from nextquery.feedback.rerank_training import count_accepted, make_reranker, train_reranker
from nextquery.feedback.reranker import (
    FEATURES,
    PRIOR,
    Reranker,
    TakenRates,
    list_features,
)
from nextquery.feedback.settings import Bounds, CompareSettings, RerankSettings
from nextquery.service.engine import SuggestQuestion, open_engine
from nextquery.suggesters.base import SuggestOptions
from nextquery.suggesters.loading import model_kind

NOTHING = TakenRates(np.zeros(0, np.uint64), np.zeros(0), np.zeros(0), 0.1)


def column(values: np.ndarray, name: str) -> list[float]:
    result: list[float] = values[:, FEATURES.index(name)].tolist()
    return result


def test_features_by_hand() -> None:
    pool = [
        ListedSuggestion("red shoes sale", "seen", "a", -1.0),
        ListedSuggestion("hats", "synthetic", "a", -3.0),
    ]
    result = list_features(("shoes", "red shoes"), pool, NOTHING)
    assert column(result, "rank") == [0, 1]
    assert column(result, "score_gap") == [0.0, 2.0]
    assert column(result, "synthetic") == [0, 1]
    assert column(result, "words") == [3, 1]
    assert column(result, "characters") == [14, 4]
    assert column(result, "new_words") == [1, 1]
    assert column(result, "taken_after_query") == pytest.approx([0, 0])
    similar = column(result, "similarity_1")
    assert similar[0] > 0.6 > 0.1 > similar[1]
    assert column(result, "similarity_3") == [0, 0]


BIAS = PositionBias((Examination(1, 1.0, 1, 1), Examination(2, 0.5, 0.4, 0.6)), 10, 200)
LISTS = [shown(n, taken=1 if n < 5 else None) for n in range(10)]


def test_rates_by_hand() -> None:
    """Boots stood first ten times, never taken; socks second, five times taken."""
    rates = count_accepted(LISTS, BIAS, min_visitors=3)
    overall = (5 + 1) / (10 + 10 * 0.5 + 2)
    assert rates.overall == pytest.approx(overall)
    assert rates.exposed("shoes", "boots") == 10
    assert rates.exposed("shoes", "socks") == 5
    socks = (5 + PRIOR * overall) / (5 + PRIOR)
    assert rates.suggestion("socks") == pytest.approx(socks)
    assert rates.pair("shoes", "socks") == pytest.approx((5 + PRIOR * socks) / (5 + PRIOR))
    assert rates.pair("hats", "socks") == pytest.approx((PRIOR * socks) / PRIOR)


def test_what_few_visitors_were_shown_is_not_remembered() -> None:
    assert len(count_accepted(LISTS, BIAS, min_visitors=6).keys) == 0
    assert len(count_accepted(LISTS, BIAS, min_visitors=5).keys) == 4


def test_queries_are_known_as_models_know_them() -> None:
    typed = [shown(n, query="  RED Shoes!") for n in range(5)]
    assert count_accepted(typed, BIAS, 3).exposed("red shoes", "boots") == 5


def test_hostile_tables_are_refused() -> None:
    keys, numbers = np.array([1, 2], np.uint64), np.ones(2)
    TakenRates(keys, numbers, numbers, 0.1).check()
    for broken in (
        TakenRates(keys, numbers[:1], numbers, 0.1),
        TakenRates(keys, -numbers, numbers, 0.1),
        TakenRates(keys, numbers * np.nan, numbers, 0.1),
        TakenRates(keys, numbers, numbers, 0.0),
    ):
        with pytest.raises(ArtifactError):
            broken.check()


SETTINGS = RerankSettings(min_taken=300)


@pytest.fixture(scope="module")
def folder(collected: Feedback, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("reranked") / "model"
    make_reranker(collected.impressions, models / "adjacency", target, "", SETTINGS)
    return target


def test_what_visitors_take_comes_first(models: Path, folder: Path) -> None:
    """4,000 impressions are enough for half of what a perfect order would gain."""
    before = acceptance(lister(models / "adjacency"))
    after = acceptance(lister(folder))
    assert after > before * 1.1


def test_the_gain_on_other_visitors_is_reported(collected: Feedback, models: Path) -> None:
    result = train_reranker(collected.impressions, "adjacency", SETTINGS).result
    assert result.gain.low > 0
    assert result.gain.base + result.gain.gain == pytest.approx(result.gain.reranked)
    history = ("taken_after_query", "taken_at_all", "exposed")
    assert sum(result.importances[name] for name in history) > 0.5


@pytest.mark.slow
def test_nothing_is_learnt_from_chance(collected: Feedback, models: Path, tmp_path: Path) -> None:
    """The control: accepted suggestions drawn at random. One draw in forty looks like a gain."""
    refused = []
    for seed in range(5):
        draw = np.random.default_rng(seed)
        shuffled = [
            replace(item, taken=frozenset({int(draw.integers(len(item.suggestions)))}))
            for item in collected.impressions
            if item.taken
        ]
        target = tmp_path / f"draw-{seed}"
        try:
            make_reranker(shuffled, models / "adjacency", target, "", SETTINGS)
        except InputError as error:
            refused.append((str(error), target.exists()))
    assert len(refused) >= 4
    assert all("nothing was learnt" in error and not written for error, written in refused)


def test_too_little_is_refused(collected: Feedback, models: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0 suggestions of hred were taken.*adjacency, turned"):
        make_reranker(collected.impressions, models / "adjacency", tmp_path / "x", "hred", SETTINGS)


def test_the_folder_holds_no_text_that_visitors_typed(folder: Path) -> None:
    assert isinstance(load(folder), Reranker)
    files = [path for path in folder.iterdir() if path.is_file()]
    assert len(files) > 8
    assert not any(b"query 1" in path.read_bytes() for path in files)


def opened(folder: Path) -> Reranker:
    model = load(folder)
    assert isinstance(model, Reranker)
    return model


def test_lists_hold_what_the_base_suggests_in_another_order(folder: Path, models: Path) -> None:
    model, base = opened(folder), load(models / "adjacency")
    lists = [(model.suggest([f"query {n}"], 8), base.suggest([f"query {n}"], 8)) for n in range(9)]
    for ours, theirs in lists:
        assert {item.text for item in ours} == {item.text for item in theirs}
        scores = [item.score for item in ours]
        assert scores == sorted(scores, reverse=True)
    assert any([a.text for a in ours] != [b.text for b in theirs] for ours, theirs in lists)


def test_short_lists_begin_long_ones(folder: Path) -> None:
    model = opened(folder)
    assert model.suggest(["query 1"], 8)[:3] == model.suggest(["query 1"], 3)
    assert model.suggest(["query 1"], 0) == []
    assert model.suggest(["query 1"], 5) == model.suggest(["  QUERY 1"], 5)


def test_all_else_is_the_base_model(folder: Path, models: Path) -> None:
    model, base = opened(folder), load(models / "adjacency")
    assert model.score(["query 1"], ["query 1 to 2"]) == base.score(["query 1"], ["query 1 to 2"])
    assert model.complete([], "query 1") == base.complete([], "query 1")  # type: ignore[attr-defined]
    assert not model_kind(folder).neural


def test_switched_off_its_lists_are_the_base_models(
    folder: Path, models: Path, tmp_path: Path
) -> None:
    opened(folder).save_switched(tmp_path / "off", enabled=False, reason="a test")
    model, base = opened(tmp_path / "off"), load(models / "adjacency")
    assert not model.enabled
    assert model.suggest(["query 1"], 4) == base.suggest(["query 1"], 4)
    assert open_artifact(tmp_path / "off").entry("switched") == "a test"


def test_a_blocklist_holds_for_the_base_models_suggestions(folder: Path, tmp_path: Path) -> None:
    first = opened(folder).suggest(["query 1"], 1)[0].text
    (tmp_path / "blocklist").write_text(first + "\n")
    guarded = load(folder, blocklist=tmp_path / "blocklist")
    assert first not in [item.text for item in guarded.suggest(["query 1"], 8)]


def test_a_service_opens_it(folder: Path) -> None:
    engine = open_engine(folder, None)
    [result] = engine.answer([SuggestQuestion(("query 1",))])
    assert result == opened(folder).suggest(["query 1"], 5)


@pytest.fixture(scope="module")
def reranked_hred(
    collected: Feedback, prepared: Any, tiny_log: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("reranked-hred")
    make_untrained_hred(prepared(tiny_log(chance_sessions())), folder / "hred")
    make_reranker(collected.impressions, folder / "hred", folder / "model", "adjacency", SETTINGS)
    return folder


def test_a_reranked_hred_takes_every_option_of_a_list(reranked_hred: Path) -> None:
    engine = open_engine(reranked_hred / "model", None)
    base = open_engine(reranked_hred / "hred", None)
    assert engine.facts.specificity == base.facts.specificity > 0
    lists: dict[str, set[str]] = {}
    for known in ("free", "only"):
        question = SuggestQuestion(("query 1",), SuggestOptions(n=10, known=known))
        [ours], [theirs] = engine.answer([question]), base.answer([question])
        lists[known] = {item.text for item in ours}
        assert lists[known] == {item.text for item in theirs}
    assert lists["free"] != lists["only"]
    tables = opened(reranked_hred / "model").guard.tables
    assert all(text in tables.queries for text in lists["only"])


def test_damaged_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("trees_leaves.npy", "base/manifest.json", "rates_keys.npy"):
        broken = tmp_path / name.replace("/", "-")
        shutil.copytree(folder, broken)
        content = bytearray((broken / name).read_bytes())
        content[-1] ^= 1
        (broken / name).write_bytes(bytes(content))
        with pytest.raises(ChecksumError):
            load(broken)


@pytest.mark.slow
def test_a_reranker_of_a_reranker_is_refused(
    collected: Feedback, folder: Path, tmp_path: Path
) -> None:
    make_reranker(collected.impressions, folder, tmp_path / "twice", "adjacency", SETTINGS)
    with pytest.raises(ArtifactError, match="re-ranks a re-ranker"):
        load(tmp_path / "twice")


def test_ties_keep_the_order_of_the_base(folder: Path) -> None:
    model = opened(folder)
    flat = Reranker(
        model._artifact, model.base, model.guard,
        type(model._trees)(*(np.array([-1]), *[np.zeros(0, int)] * 4, np.zeros(1))),
        model._rates,
    )  # fmt: skip
    pool = model.base.suggest(["query 3"], 8)
    assert [item.text for item in flat.reorder(["query 3"], pool)] == [item.text for item in pool]


@pytest.fixture
def reranker_folder(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "model"))


def trial(base: Lister, served: Lister, reranker_folder: Path, visitors: int = 1200) -> Feedback:
    """A split between the base and what the service showed as the re-ranker of this version."""
    version = sha256(reranker_folder / MANIFEST)[:12]
    versions = {"reranked": version}
    service = SimulatedService({"base": base, "reranked": served}, "split", versions)
    events = simulate(VISITORS, service, visitors, np.random.default_rng(9))
    return join_events(events, Bounds(per_origin=0))


@pytest.mark.slow
def test_a_good_one_stays_on(reranker_folder: Path, models: Path) -> None:
    base = lister(models / "adjacency")
    result = guard_reranker(
        trial(base, lister(reranker_folder), reranker_folder), reranker_folder, CompareSettings()
    )
    assert (result.enabled, result.switched_off) == (True, False)
    assert len(result.trials) == 1


def test_one_that_visitors_like_less_is_switched_off(reranker_folder: Path, models: Path) -> None:
    base = lister(models / "adjacency")
    good = lister(reranker_folder)
    bad = lambda session: base(session)[-2:]  # noqa: E731
    feedback = trial(good, bad, reranker_folder)
    result = guard_reranker(feedback, reranker_folder, CompareSettings())
    assert (result.enabled, result.switched_off) == (False, True)
    assert result.reason.startswith("worse than base")
    assert not load(reranker_folder).enabled  # type: ignore[attr-defined]
    again = guard_reranker(feedback, reranker_folder, CompareSettings())
    assert (again.enabled, again.switched_off) == (False, False)


def test_trials_of_other_versions_do_not_count(reranker_folder: Path, models: Path) -> None:
    feedback = trial(lister(models / "adjacency"), lambda _: [], models / "adjacency", 50)
    result = guard_reranker(feedback, reranker_folder, CompareSettings())
    assert result.reason == "it took part in no trial yet"


def test_other_models_have_no_guard_to_ask(models: Path) -> None:
    with pytest.raises(InputError, match="not a re-ranker"):
        guard_reranker(Feedback(()), models / "adjacency", CompareSettings())
