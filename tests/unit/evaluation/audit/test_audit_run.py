"""The audit end to end on a small log: K keeps secrets, and its lack gives them away."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import make_untrained_hred

from nextquery.errors import InputError
from nextquery.evaluation.audit import AuditResult, AuditSettings, audit, describe, guarded_copy
from nextquery.evaluation.planting import PlantingSettings
from nextquery.guard.guard import Guard
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

FEW = PlantingSettings(
    canary_users=(0, 1, 5), canaries=3, fake_users=(1, 5, 20), contexts=3, decoys=63
)
WORDS = [f"word{n}" for n in range(30)]
SESSIONS = [
    (f"user{n}-{k}", (f"{WORDS[n]} {WORDS[(n + k) % 30]}", f"{WORDS[n]} {WORDS[(n + 9) % 30]}"))
    for n in range(30)
    for k in (1, 1, 1, 2)
]


@pytest.fixture
def folders(prepared: Any, tiny_log: Any, tmp_path: Path) -> tuple[Any, Path]:
    users = [(f"{user}-{place}", queries) for place, (user, queries) in enumerate(SESSIONS)]
    data = prepared(tiny_log(users, min_users=3))
    fit_model(Adjacency, data).save(tmp_path / "model")
    return data, tmp_path / "model"


@pytest.fixture
def result(folders: tuple[Any, Path]) -> AuditResult:
    data, model = folders
    return audit(model, data, AuditSettings(min_users=(1, 3), planting=FEW))


def test_the_k_user_rule_keeps_secrets(result: AuditResult) -> None:
    [found] = result.exposures
    guarded = {each.users: each for each in found.guarded}
    bare = {each.users: each for each in found.unguarded}
    assert (guarded[1].shown, guarded[0].shown) == (0, 0)
    assert guarded[1].mean_bits < 3
    assert (bare[1].shown, bare[1].mean_bits) == (3, 6.0)
    assert guarded[5].shown == 3, "what K users typed is no secret"


def test_one_fake_user_pushes_where_k_is_one(result: AuditResult) -> None:
    needed = {curve.min_users: curve.needed for curve in result.poisoning}
    assert needed == {1: 1, 3: 5}


def test_other_kinds_are_made_if_asked_for(folders: tuple[Any, Path]) -> None:
    data, model = folders
    settings = AuditSettings(kinds=("popularity",), min_users=(3,), planting=FEW)
    found = audit(model, data, settings)
    assert [curve.kind for curve in found.poisoning] == ["adjacency", "popularity"]
    with pytest.raises(InputError, match="`kinds` nonsense"):
        audit(model, data, AuditSettings(kinds=("nonsense",), planting=FEW))


def test_a_trained_model_is_not_trained_again_unasked(
    folders: tuple[Any, Path], tmp_path: Path
) -> None:
    data, _ = folders
    make_untrained_hred(data, tmp_path / "hred")
    found = audit(tmp_path / "hred", data, AuditSettings(min_users=(3,), planting=FEW))
    assert (found.exposures, found.poisoning) == ((), ())
    assert "give a `config`" in found.not_made[0]
    assert found.coverage.lists > 0
    assert "Not made again: hred" in describe(found)


def test_a_trained_model_is_guarded_by_another_k(
    folders: tuple[Any, Path], prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data, _ = folders
    make_untrained_hred(data, tmp_path / "hred")
    strict = prepared(tiny_log([("one", ("word1 word2", "word1 word3"))], min_users=1))
    copy = guarded_copy(tmp_path / "hred", strict, tmp_path / "copy")
    weights = "model.safetensors"
    assert (copy / weights).read_bytes() == (tmp_path / "hred" / weights).read_bytes()
    first, second = (Guard.open(path) for path in (tmp_path / "hred", copy))
    assert (first.tables.min_users, second.tables.min_users) == (3, 1)
