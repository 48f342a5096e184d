import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import make_untrained_hred
from tests.unit.feedback.made_up import chance_sessions

from nextquery import load
from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, ChecksumError
from nextquery.feedback.impressions import Feedback
from nextquery.feedback.rerank_training import make_reranker
from nextquery.feedback.reranker import Reranker
from nextquery.feedback.settings import RerankSettings
from nextquery.service.engine import SuggestQuestion, open_engine
from nextquery.suggesters.asking import SuggestOptions
from nextquery.suggesters.loading import model_kind


@pytest.fixture(scope="module")
def folder(collected: Feedback, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("reranked") / "model"
    settings = RerankSettings(min_taken=300)
    make_reranker(collected.impressions, models / "adjacency", target, "", settings)
    return target


def opened(folder: Path) -> Reranker:
    model = load(folder)
    assert isinstance(model, Reranker)
    return model


def test_lists_hold_what_the_base_suggests_in_another_order(folder: Path, models: Path) -> None:
    model, base = opened(folder), load(models / "adjacency")
    lists = [(model.suggest([f"query {n}"], 8), base.suggest([f"query {n}"], 8)) for n in range(9)]
    for ours, theirs in lists:
        assert {each.text for each in ours} == {each.text for each in theirs}
        scores = [each.score for each in ours]
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


def test_a_saved_copy_is_the_same(folder: Path, tmp_path: Path) -> None:
    opened(folder).save(tmp_path / "copy")
    assert opened(tmp_path / "copy").suggest(["query 2"]) == opened(folder).suggest(["query 2"])


def test_a_blocklist_holds_for_the_base_models_suggestions(folder: Path, tmp_path: Path) -> None:
    first = opened(folder).suggest(["query 1"], 1)[0].text
    (tmp_path / "blocklist").write_text(first + "\n")
    guarded = load(folder, blocklist=tmp_path / "blocklist")
    assert first not in [each.text for each in guarded.suggest(["query 1"], 8)]


def test_a_service_opens_it(folder: Path) -> None:
    engine = open_engine(folder, None)
    [found] = engine.answer([SuggestQuestion(("query 1",))])
    assert found == opened(folder).suggest(["query 1"], 5)


@pytest.fixture(scope="module")
def reranked_hred(
    collected: Feedback,
    prepared: Any,
    tiny_log: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    folder = tmp_path_factory.mktemp("reranked-hred")
    make_untrained_hred(prepared(tiny_log(chance_sessions())), folder / "hred")
    settings = RerankSettings(min_taken=300)
    make_reranker(collected.impressions, folder / "hred", folder / "model", "adjacency", settings)
    return folder


def test_a_reranked_hred_takes_every_option_of_a_list(reranked_hred: Path) -> None:
    engine = open_engine(reranked_hred / "model", None)
    base = open_engine(reranked_hred / "hred", None)
    assert engine.specificity == base.specificity > 0
    lists: dict[str, set[str]] = {}
    for known in ("free", "only"):
        question = SuggestQuestion(("query 1",), SuggestOptions(n=10, known=known))
        [ours], [theirs] = engine.answer([question]), base.answer([question])
        lists[known] = {each.text for each in ours}
        assert lists[known] == {each.text for each in theirs}
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


def test_a_reranker_of_a_reranker_is_refused(
    collected: Feedback, folder: Path, tmp_path: Path
) -> None:
    settings = RerankSettings(min_taken=300)
    make_reranker(collected.impressions, folder, tmp_path / "twice", "adjacency", settings)
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
    assert [each.text for each in flat.reorder(["query 3"], pool)] == [each.text for each in pool]
