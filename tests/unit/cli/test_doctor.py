import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.doctor import COMMANDS, _import
from nextquery.cli.main import app
from nextquery.extras import EXTRAS


def test_every_extra_is_named_with_its_commands() -> None:
    assert set(COMMANDS) == {"core", *EXTRAS}


@pytest.fixture
def few_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extras that are imported quickly, and one that is not there: all of them take long."""
    few = {"redis": ("redis",), "excel": ("python_calamine",), "spark": ("no_such_module",)}
    monkeypatch.setattr("nextquery.extras.EXTRAS", few)


@pytest.mark.slow
@pytest.mark.usefixtures("few_extras")
def test_what_is_installed_is_told() -> None:
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)["extras"]

    assert list(found) == ["core", "redis", "excel", "spark"]
    assert found["redis"]["missing"] == []
    assert found["core"]["import_seconds"] > 0
    assert found["redis"]["import_seconds"] > 0
    assert found["spark"] == {
        "missing": ["no_such_module"],
        "import_seconds": None,
        "failure": None,
    }


@pytest.mark.usefixtures("few_extras")
def test_what_is_missing_is_told_with_what_to_install() -> None:
    lines = CliRunner().invoke(app, ["doctor"]).stdout.splitlines()

    assert lines[0].startswith("Python ")
    assert lines[1].startswith("  compiled library: ")
    assert [line.split()[:2] for line in lines[2:]] == [
        ["installed", "core"], ["installed", "redis"], ["installed", "excel"], ["missing", "spark"],
    ]  # fmt: skip
    assert "pip install 'nextquery[spark]'   (lacks no_such_module)" in lines[-1]


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named"),
        ("raise OSError('libmissing.so.1: cannot open shared object file')", "OSError: libmissing"),
        ("raise RuntimeError('two\\nlines')", "lines"),
        ("import os; os.abort()", "ends the process with exit code -6"),
        ("raise SystemExit(0)", "ends the process with exit code 0"),
        ("def", "SyntaxError"),
        ("import time; time.sleep(60)", "takes longer than 2 seconds"),
        ("print('hello')", None),
    ],
)
def test_a_module_that_cannot_be_imported_is_broken(
    source: str, failure: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_under_test.py").write_text(source)
    if "sleep" in source:
        monkeypatch.setattr("nextquery.cli.doctor.IMPORT_SECONDS", 2)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    seconds, said = _import(("module_under_test",))
    assert (seconds is None) == (failure is not None)
    assert (failure or "") in (said or "")


@pytest.mark.usefixtures("few_extras")
def test_what_is_broken_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "redis.py").write_text("raise ImportError('not built for this machine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lines = CliRunner().invoke(app, ["doctor"]).stdout.splitlines()
    [line] = [line for line in lines if "redis" in line]
    assert line.split() == [
        "broken", "redis", "cannot", "be", "imported:", "ImportError:", "not", "built", "for",
        "this", "machine",
    ]  # fmt: skip
