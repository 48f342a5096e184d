from pathlib import Path

import pytest

from nextquery.artifacts import publish
from nextquery.cli.serve import served_models
from nextquery.errors import InputError


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        with publish(tmp_path / name, "adjacency", {}):
            pass
    return tmp_path


def test_models_of_a_trial_are_served(folders: Path) -> None:
    a, b = folders / "a", folders / "b"
    found = served_models(None, "", [], [f"A={a}", f"B={b}"], "")
    assert [(model.name, model.path) for model in found.served] == [("A", a), ("B", b)]
    assert found.interleave == ("A", "B")


def test_a_trial_may_name_what_is_served_already(folders: Path) -> None:
    a, b = folders / "a", folders / "b"
    found = served_models(a, "", [f"B={b}"], ["adjacency", "B"], "B")
    assert [model.name for model in found.served] == ["adjacency", "B"]
    assert (found.interleave, found.shadow) == (("adjacency", "B"), "B")


@pytest.mark.parametrize(
    ("compare", "interleave", "shadow", "message"),
    [
        (["x"], [], "", "write NAME=MODEL"),
        ([], ["C", "adjacency"], "", "no model has this name"),
        ([], ["adjacency={b}"], "", "another model has this name"),
        ([], [], "=x", "write NAME or NAME=MODEL"),
    ],
)
def test_what_cannot_be_served_is_refused(
    folders: Path, compare: list[str], interleave: list[str], shadow: str, message: str
) -> None:
    given = [entry.format(b=folders / "b") for entry in interleave]
    with pytest.raises(InputError, match=message):
        served_models(folders / "a", "", compare, given, shadow)


def test_something_must_be_shown(folders: Path) -> None:
    with pytest.raises(InputError, match="MODEL"):
        served_models(None, "", [], [], f"B={folders / 'b'}")
