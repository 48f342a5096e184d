"""How `nextquery experiment` reads its options; the experiment itself runs in integration."""

from pathlib import Path

import pytest

from nextquery.cli import experiment
from nextquery.errors import InputError
from nextquery.evaluation.systems import identity


def test_a_folder_without_a_name_is_called_by_its_kind(served_models: dict[str, Path]) -> None:
    folder = served_models["adjacency"]
    assert experiment._named("model", [str(folder), f"mine={folder}"]) == {
        "adjacency": folder,
        "mine": folder,
    }
    with pytest.raises(InputError, match=r"^`feature_from` .*: the name 'adjacency' is taken"):
        experiment._named("feature_from", [str(folder), str(folder)])


def test_several_folders_are_an_ensemble(served_models: dict[str, Path]) -> None:
    one, two = served_models["adjacency"], served_models["popularity"]
    found = experiment._with_ensembles([f"both={one},{two}", str(one)])
    assert found == {"both": (one, two), "adjacency": one}
    with pytest.raises(InputError, match="the name 'both' is taken"):
        experiment._with_ensembles([f"both={one},{two}", f"both={one}"])


def test_runs_have_names(tmp_path: Path) -> None:
    file = tmp_path / "run.txt"
    file.write_text("1 Q0 a 1 2.0 x\n")
    twice = [f"theirs={file}", f"theirs={file}"]
    assert experiment._run_files(twice) == {"theirs": (file, file)}
    with pytest.raises(InputError, match=r"`runs` .*: write NAME=FILE"):
        experiment._run_files([str(file)])
    with pytest.raises(InputError, match=r"`runs` .*gone.txt: no such file"):
        experiment._run_files([f"theirs={tmp_path / 'gone.txt'}"])


def test_systems_of_ones_own_are_imported_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_systems.py").write_text(
        "from nextquery.records import ScoredQuery\n"
        "class Flat:\n"
        "    identity = 'flat 1'\n"
        "    def score(self, context, candidates):\n"
        "        return [ScoredQuery(text, 0.0, 1) for text in candidates]\n"
        "def flat(): return Flat()\n"
        "def several(): return {'one': Flat(), 'two': Flat()}\n"
        "def wrong(): return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert list(experiment._features([], ["own_systems:flat", "own_systems:several"])) == [
        "flat", "one", "two",
    ]  # fmt: skip
    model = experiment._with_ensembles(["mine=own_systems:flat"])["mine"]
    assert identity(model) == "flat 1"
    for function, problem in {
        "own_systems:wrong": "wrong is a int without score",
        "own_systems:gone": "has no attribute 'gone'",
        "nowhere:flat": "No module named 'nowhere'",
    }.items():
        with pytest.raises(InputError, match=f"`features` {function}: .*{problem}"):
            experiment._features([], [function])
    with pytest.raises(InputError, match="must give one object"):
        experiment._with_ensembles(["mine=own_systems:several"])
