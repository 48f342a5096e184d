"""`nextquery bench`: the list, a name that is none, and how results are printed."""

from pathlib import Path

from typer.testing import CliRunner

from nextquery.cli import bench
from nextquery.cli.main import app


def test_without_a_name_the_list_is_printed() -> None:
    printed = CliRunner().invoke(app, ["bench"]).stdout.split()
    assert {"prepare", "train", "decode", "serve", "install"} <= set(printed)
    files = Path(__file__).parents[3] / "bench"
    assert printed == sorted(path.stem for path in files.glob("*.py"))


def test_a_name_that_is_none_is_answered_with_the_list() -> None:
    failed = CliRunner().invoke(app, ["bench", "speed"])
    assert failed.exit_code != 0
    assert "no benchmark 'speed'; there are: decode, engine" in str(failed.exception)


def test_results_are_printed_as_an_indented_list() -> None:
    printed = bench._readable({"name": "x", "times": {"one": 1.23456, "two": 2}})
    assert printed == "name: x\ntimes:\n  one: 1.235\n  two: 2"


def test_the_machine_is_described() -> None:
    facts = bench.machine()
    assert facts["cpu"]
    assert facts["cores"] >= 1
    assert facts.keys() == {"cpu", "cores", "system", "python"}
