"""A base model that is independent of what attracts visitors, and visitors."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.feedback.made_up import chance_sessions, lister, run

from nextquery.feedback.impressions import Feedback
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity


@pytest.fixture(scope="session")
def models(prepared: Any, tiny_log: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders `adjacency` and `popularity` of a log whose followers are by chance."""
    data = prepared(tiny_log(chance_sessions()))
    folder = tmp_path_factory.mktemp("models")
    fit_model(Adjacency, data).save(folder / "adjacency")
    fit_model(Popularity, data).save(folder / "popularity")
    return folder


@pytest.fixture(scope="session")
def collected(models: Path) -> Feedback:
    """2,000 visitors of the base model, interleaved with one of another order."""
    base = lister(models / "adjacency")
    turned = lambda session: base(session)[::-1]  # noqa: E731
    return run({"adjacency": base, "turned": turned}, "interleave", 2000, 1)
