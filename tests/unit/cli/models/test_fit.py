import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app

SHARED = [(f"a{n}", ["red shoes", "red boots"]) for n in range(3)]
ALONE = [(f"b{n}", [f"shoes {n}", f"boots {n}"]) for n in range(20)]


def _fitted(data: Path, kind: str, out: Path, *more: str) -> Any:
    words = ["fit", str(data), "--kind", kind, "--out", str(out), *more]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result


def test_a_nearly_empty_model_says_why(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log([*SHARED, *ALONE], min_users=2)).path
    told = _fitted(data, "adjacency", tmp_path / "model").stderr

    assert "Only 13.0% of the background's searches are of queries that 2 users typed" in told
    assert "It would be 100.0% with --min-users 1" in told


def test_shortcuts_without_clicks_says_what_was_chosen(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data = prepared(tiny_log(SHARED)).path
    told = json.loads(_fitted(data, "shortcuts", tmp_path / "model", "--json").stdout)

    assert told["settings"]["satisfactory"] is False
    [advice] = told["advice"]
    assert advice.endswith("all sessions are indexed (--set satisfactory=false).")


def test_a_log_that_lacks_nothing_gets_no_advice(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data = prepared(tiny_log(SHARED)).path
    assert _fitted(data, "adjacency", tmp_path / "model").stderr == ""


@pytest.mark.parametrize(
    ("kind", "more", "reason"),
    [
        ("rescue", (), "the log has no clicks"),
        ("rescue", ("--hits",), "no known query without hits is followed by one that has some"),
        (
            "popularity",
            ("--set", "trending_days=90"),
            "the log has 1 day, and a trend",
        ),
    ],
)
def test_an_empty_model_says_why(
    kind: str, more: tuple[str, ...], reason: str, prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    (tmp_path / "titles").write_text("something else\n")
    if more == ("--hits",):
        more = ("--hits", str(tmp_path / "titles"))
    data = prepared(tiny_log(SHARED)).path
    told = _fitted(data, kind, tmp_path / "model", *more).stderr
    assert f"model has no suggestions: {reason}" in told
    told = json.loads(_fitted(data, kind, tmp_path / "model", *more, "--json").stdout)
    assert told["empty"] is True


def test_a_rescue_with_hits_is_not_empty(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    (tmp_path / "titles").write_text("red boots\n")
    data = prepared(tiny_log(SHARED)).path
    words = ("--hits", str(tmp_path / "titles"), "--json")
    told = json.loads(_fitted(data, "rescue", tmp_path / "model", *words).stdout)
    assert (told["empty"], told["advice"]) == (False, [])
