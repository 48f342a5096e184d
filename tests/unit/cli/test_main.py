"""The command's general options, and errors as one line with their exit code."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery._version import __version__
from nextquery.cli import main
from nextquery.extras import EXTRAS


def test_the_version_names_the_extras_that_are_there() -> None:
    printed = CliRunner().invoke(main.app, ["--version"])
    assert printed.exit_code == 0
    assert printed.stdout.startswith(f"nextquery {__version__} (extras: ")
    assert "serve" in printed.stdout
    assert "serve" in EXTRAS


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["nextquery", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.run()
    return int(str(ended.value.code or 0))


def test_an_error_is_one_line_in_the_words_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("user\ttime\tquery\n")
    code = run(monkeypatch, "prepare", str(log), "--out", str(tmp_path / "d"), "--min-users", "0")
    said = capsys.readouterr().err
    assert code == 2
    assert said == "error: --min-users: must be 1 or more, and at most 1,000,000,000\n"


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "nextquery.service.run", raising=False)
    monkeypatch.delitem(sys.modules, "nextquery.service.run", raising=False)
    code = run(monkeypatch, "serve", str(tmp_path))
    said = capsys.readouterr().err
    assert code == 2
    assert said.count("\n") == 1
    assert "nextquery[serve]" in said


def test_a_module_that_no_extra_has_is_a_defect_and_shown_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> None:
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")

    monkeypatch.setattr(main, "app", broken)
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        main.run()
