"""Making a blend: which parts it may have, and that its weights are learnt."""

from pathlib import Path
from typing import Any

import pytest

from nextquery import PreparedData
from nextquery.artifacts import open_artifact
from nextquery.errors import InputError, NextqueryError
from nextquery.suggesters.blend import Blend, BlendSettings, make_blend


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
    [((1, 2), "trained model first"), ((0, 0), "beside the first"), ((0,), "1 to 4 count models")],
)
def test_other_parts_are_refused(
    order: tuple[int, ...],
    said: str,
    parts: list[Path],
    town_data: PreparedData,
    tmp_path: Path,
) -> None:
    base, *members = (parts[place] for place in order)
    with pytest.raises(InputError, match=said):
        make_blend(base, members, town_data, tmp_path / "blend")
    assert not (tmp_path / "blend").exists()


def test_a_log_without_validation_sessions_is_refused(
    parts: list[Path], prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data = prepared(tiny_log([("ann", ["a", "b"])]))
    with pytest.raises(NextqueryError, match="validation"):
        make_blend(parts[0], parts[1:], data, tmp_path / "blend")
