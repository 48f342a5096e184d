from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.feedback.made_up import acceptance, lister

from nextquery import load
from nextquery.errors import InputError
from nextquery.feedback.impressions import Feedback
from nextquery.feedback.rerank_training import make_reranker, train_reranker
from nextquery.feedback.reranker import Reranker
from nextquery.feedback.settings import RerankSettings

SETTINGS = RerankSettings(min_taken=300)


@pytest.fixture(scope="module")
def reranked(collected: Feedback, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("reranked") / "model"
    make_reranker(collected.impressions, models / "adjacency", target, "", SETTINGS)
    return target


def test_what_visitors_take_comes_first(models: Path, reranked: Path) -> None:
    """4,000 impressions are enough for half of what a perfect order would gain."""
    before = acceptance(lister(models / "adjacency"))
    after = acceptance(lister(reranked))
    assert after > before * 1.1


def test_the_gain_on_other_visitors_is_told(collected: Feedback, models: Path) -> None:
    trained = train_reranker(collected.impressions, "adjacency", SETTINGS)
    assert trained.gain.low > 0
    assert trained.gain.base + trained.gain.gain == pytest.approx(trained.gain.reranked)
    history = ("taken_after_query", "taken_at_all", "exposed")
    assert sum(trained.importances[name] for name in history) > 0.5


def test_nothing_is_learnt_from_chance(collected: Feedback, models: Path, tmp_path: Path) -> None:
    """The control: accepted suggestions drawn at random. One draw in forty looks like a gain."""
    refused = []
    for seed in range(5):
        draw = np.random.default_rng(seed)
        shuffled = [
            replace(each, taken=frozenset({int(draw.integers(len(each.suggestions)))}))
            for each in collected.impressions
            if each.taken
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


def test_the_folder_holds_no_text_that_visitors_typed(reranked: Path) -> None:
    assert isinstance(load(reranked), Reranker)
    own = [path for path in reranked.iterdir() if path.is_file()]
    assert len(own) > 8
    assert not any(b"query 1" in path.read_bytes() for path in own)
