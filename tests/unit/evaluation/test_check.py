"""A new model against the served one: what passes, what does not, and over whom it is judged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nextquery.errors import ArtifactError, InputError
from nextquery.evaluation.check import (
    Case,
    check,
    draw_cases,
    interval_by_user,
    promote,
    reciprocal_ranks,
    shorter_queries,
)
from nextquery.evaluation.settings import CheckSettings
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.checked import check_file, fingerprint, require_check, write_check
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import load
from nextquery.suggesters.popularity import Popularity

PAIRS = [(f"{word} shop", f"{word} prices") for word in ("shoe", "tea", "lamp", "boat", "toy")]


def _prepared(folder: Path, pairs: Sequence[tuple[str, str]], later: Sequence[Any]) -> PreparedData:
    """Sixty users type the pairs on nine days, thirty others the later ones on the tenth."""
    rows = ["AnonID\tQuery\tQueryTime\tItemRank\tClickURL"]
    for day in range(1, 11):
        users, typed = (range(30), later) if day == 10 else (range(100, 160), pairs)
        for user in users:
            first, second = typed[(user + day) % len(typed)]
            for minute, query in enumerate((first, second)):
                rows.append(f"{user}\t{query}\t2006-03-{day:02d} 10:{minute:02d}:00\t\t")
    folder.mkdir()
    (folder / "log.tsv").write_text("\n".join(rows) + "\n")
    settings = PrepareSettings(spelling=False, min_users=1, split_days=".1,.7,.1")
    prepare([folder / "log.tsv"], folder / "data", settings)
    return PreparedData(folder / "data")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[PreparedData, Path]:
    folder = tmp_path_factory.mktemp("check")
    data = _prepared(folder / "good", PAIRS, PAIRS)
    other = _prepared(folder / "bad", [(first, "nothing else") for first, _ in PAIRS], PAIRS)
    fit_model(Adjacency, data).save(folder / "adjacency")
    fit_model(Adjacency, other).save(folder / "bad-model")
    fit_model(Popularity, data).save(folder / "popularity")
    return data, folder


def test_the_same_model_passes(made: tuple[PreparedData, Path]) -> None:
    data, folder = made
    result = check(folder / "adjacency", folder / "adjacency", data)
    assert result.passed, result.reasons
    assert result.users == 30
    assert result.mrr["new"] == result.mrr["old"] == 1.0
    assert result.mrr["popularity"] < 0.5
    assert result.mrr["dropped words"] == 0
    assert {found.other for found in result.differences} == {"old", "popularity", "dropped words"}


@pytest.mark.parametrize("bad", ["bad-model", "popularity"])
def test_a_worse_model_is_refused(made: tuple[PreparedData, Path], bad: str) -> None:
    data, folder = made
    result = check(folder / bad, folder / "adjacency", data)
    assert not result.passed
    assert any("the old model has 1.0000" in reason for reason in result.reasons)
    better = check(folder / "adjacency", folder / bad, data)
    assert better.passed, better.reasons


def test_a_rule_that_beats_the_old_model_is_no_reason_to_keep_it(
    made: tuple[PreparedData, Path],
) -> None:
    data, folder = made
    same = check(folder / "bad-model", folder / "bad-model", data)
    assert same.mrr["new"] < same.mrr["popularity"]
    assert same.passed, same.reasons


def test_few_users_decide_nothing(made: tuple[PreparedData, Path]) -> None:
    data, folder = made
    settings = CheckSettings(min_users=31)
    result = check(folder / "adjacency", folder / "adjacency", data, settings)
    assert "only 30 users have later sessions; 31 are needed" in result.reasons


def test_nothing_later_is_an_error(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log([("u", ["a", "b"])]))
    fit_model(Adjacency, data).save(tmp_path / "model")
    with pytest.raises(InputError, match="no session"):
        check(tmp_path / "model", tmp_path / "model", data)


def test_users_are_drawn_with_all_their_cases() -> None:
    """One person's thousand losses are one person's."""
    differences = np.concatenate([np.full(1000, -1.0), np.ones(10)])
    users = ["one"] * 1000 + [f"u{n}" for n in range(10)]
    low, high = interval_by_user(differences, users)
    assert low < 0 < high
    low, high = interval_by_user(differences, [f"u{n}" for n in range(1010)])
    assert high < 0


def test_cases_and_ranks() -> None:
    rows = pl.DataFrame(
        {
            "session": [1, 1, 1, 2],
            "position": [0, 1, 2, 0],
            "user": ["a", "a", "a", "b"],
            "query": ["x", "y", "x", "z"],
        }
    )
    cases = draw_cases(rows, 10)
    assert cases == [Case("a", ("x",), "y")]  # a repeated query is not asked for
    assert reciprocal_ranks(lambda some: [["q", "y"] for _ in some], cases).tolist() == [0.5]
    assert shorter_queries(["red shoes", "cheap red shoes"], 2) == ["cheap red", "cheap shoes"]


def test_a_check_is_about_one_model(made: tuple[PreparedData, Path], tmp_path: Path) -> None:
    _, folder = made
    new, old = tmp_path / "new", tmp_path / "old"
    load(folder / "adjacency").save(new)
    load(folder / "popularity").save(old)
    with pytest.raises(ArtifactError, match="was not checked"):
        require_check(new)
    write_check(new, {"passed": True}, fingerprint(new))
    require_check(new)
    write_check(old, {"passed": True}, fingerprint(new))
    with pytest.raises(ArtifactError, match="about another model"):
        require_check(old)
    write_check(new, {"passed": False}, fingerprint(new))
    with pytest.raises(ArtifactError, match="did not pass"):
        require_check(new)
    check_file(new).write_text("{")
    with pytest.raises(ArtifactError, match="cannot be read"):
        require_check(new)


def test_the_copy_is_the_same_model(made: tuple[PreparedData, Path], tmp_path: Path) -> None:
    _, folder = made
    target = tmp_path / "served"
    fit_model(Adjacency, made[0]).save(target)
    promote(folder / "adjacency", target)
    assert fingerprint(target) == fingerprint(folder / "adjacency")
    assert load(target).suggest(["tea shop"])[0].text == "tea prices"
