"""The command's general options, and errors as one line with their exit code."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from nextquery._version import __version__
from nextquery.cli import main
from nextquery.cli.main import MOST_CHARACTERS, one_line
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


@given(st.text(max_size=3000))
def test_any_message_is_one_line(message: str) -> None:
    shown = one_line(message)
    assert len(shown.splitlines()) <= 1
    assert len(shown) <= MOST_CHARACTERS + 10
    assert "\x1b" not in shown


def test_long_messages_keep_beginning_and_end() -> None:
    shown = one_line("`kind` " + "x" * 100_000 + ": must be one of a, b")
    assert shown.startswith("`kind` xxx")
    assert shown.endswith("xxx: must be one of a, b")
    assert "[...]" in shown


def test_names_that_are_no_text_stay_bytes() -> None:
    name = os.fsdecode(b"a\xff")
    assert os.fsencode(one_line(name)) == b"a\xff"
