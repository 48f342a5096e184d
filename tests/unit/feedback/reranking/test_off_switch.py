import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.unit.feedback.made_up import VISITORS, lister

from nextquery import load
from nextquery.artifacts import MANIFEST, sha256
from nextquery.errors import InputError
from nextquery.feedback.compare import guard_reranker
from nextquery.feedback.impressions import Feedback, join_events
from nextquery.feedback.rerank_training import make_reranker
from nextquery.feedback.settings import Bounds, CompareSettings, RerankSettings
from nextquery.feedback.simulated_visitors import Lister, SimulatedService, simulate


@pytest.fixture(scope="module")
def made(collected: Feedback, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("reranked") / "model"
    settings = RerankSettings(min_taken=300)
    make_reranker(collected.impressions, models / "adjacency", target, "", settings)
    return target


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "model"))


def trial(base: Lister, served: Lister, folder: Path, visitors: int = 1200) -> Feedback:
    """A split between the base and what the service showed as the re-ranker of this version."""
    version = sha256(folder / MANIFEST)[:12]
    versions = {"reranked": version}
    service = SimulatedService({"base": base, "reranked": served}, "split", versions)
    events = simulate(VISITORS, service, visitors, np.random.default_rng(9))
    return join_events(events, Bounds(per_origin=0))


def test_a_good_one_stays_on(folder: Path, models: Path) -> None:
    base = lister(models / "adjacency")
    found = guard_reranker(trial(base, lister(folder), folder), folder, CompareSettings())
    assert (found.enabled, found.switched_off) == (True, False)
    assert len(found.trials) == 1


def test_one_that_visitors_like_less_is_switched_off(folder: Path, models: Path) -> None:
    base = lister(models / "adjacency")
    good = lister(folder)
    bad = lambda session: base(session)[-2:]  # noqa: E731
    feedback = trial(good, bad, folder)
    found = guard_reranker(feedback, folder, CompareSettings())
    assert (found.enabled, found.switched_off) == (False, True)
    assert found.reason.startswith("worse than base")
    assert not load(folder).enabled  # type: ignore[attr-defined]
    again = guard_reranker(feedback, folder, CompareSettings())
    assert (again.enabled, again.switched_off) == (False, False)


def test_trials_of_other_versions_do_not_count(folder: Path, models: Path) -> None:
    feedback = trial(lister(models / "adjacency"), lambda _: [], models / "adjacency", 50)
    found = guard_reranker(feedback, folder, CompareSettings())
    assert found.reason == "it took part in no trial yet"


def test_other_models_have_no_guard_to_ask(models: Path) -> None:
    with pytest.raises(InputError, match="not a re-ranker"):
        guard_reranker(Feedback(()), models / "adjacency", CompareSettings())
