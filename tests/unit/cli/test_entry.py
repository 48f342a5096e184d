"""Errors of the system are one line with the place and what to do."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from nextquery.cli.entry import described


def command(*arguments: str, file_size: int | None = None) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    return subprocess.run(
        [sys.executable, "-m", "nextquery", *arguments],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        preexec_fn=limit,
    )


def assert_one_line(done: subprocess.CompletedProcess[str], *said: str) -> None:
    assert done.stderr.startswith("error: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert all(text in done.stderr for text in said), done.stderr


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(28, "No space left", b"a\xff"), "a\udcff: No space left; free some space"),
        (OSError("4096 requested and 0 written"), "4096 requested and 0 written"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (OSError(2, "No such file", 3), "No such file; check the path"),
        (OSError("No space left (os error 28)"), "No space left (os error 28); free some"),
        (OSError(), "OSError"),
    ],
)
def test_what_is_said(error: OSError, expected: str) -> None:
    assert described(error).startswith(expected)


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command("synth", str(tmp_path / "file" / "log.tsv"), "--sessions", "10")
    assert_one_line(done, "/file: ", "choose another path")
    assert done.returncode == 2


def test_a_name_too_long(tmp_path: Path) -> None:
    done = command("synth", str(tmp_path / ("x" * 300)), "--sessions", "10")
    assert_one_line(done, "xxx", "too long")
    assert done.returncode == 2


def test_a_disk_without_space(tmp_path: Path) -> None:
    done = command("synth", str(tmp_path / "log.tsv"), "--sessions", "5000", file_size=1000)
    assert_one_line(done, "File too large", "ulimit")
    assert done.returncode == 1


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"log-\xff.tsv")
    done = command("synth", str(tmp_path / name), "--sessions", "10")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name).is_file()
    assert_one_line(command("inspect", str(tmp_path / name)), name)


SAID = "naïve \u6771\u4eac \U0001f600 \u0100"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "koi8-r", "utf-8"])
def test_every_text_is_printed_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    out = tmp_path / f"{SAID}.tsv"
    done = subprocess.run(
        [sys.executable, "-m", "nextquery", "synth", str(out), "--sessions", "10"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    shown = done.stdout.decode(encoding).partition(":")[0]
    assert json.loads(f'"{shown}"') == str(out)


def test_errors_are_printed_in_latin_1(tmp_path: Path) -> None:
    missing = tmp_path / SAID
    done = subprocess.run(
        [sys.executable, "-m", "nextquery", "inspect", str(missing)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert done.returncode == 2
    shown = str(tmp_path).encode() + rb"/na\xefve \u6771\u4eac \ud83d\ude00 \u0100"
    shown = shown.replace(rb"\xef", b"\xef")
    assert done.stderr == b"error: " + shown + b": no such folder\n"


@pytest.mark.slow
@pytest.mark.parametrize("size", [6000, 50_000])
def test_a_full_disk_while_rows_are_removed(tmp_path: Path, prepared_log: Path, size: int) -> None:
    done = command(
        "forget", str(prepared_log), "--user", "1", "--out", str(tmp_path / "out"), file_size=size
    )
    assert_one_line(done, "File too large")
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def prepared_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    assert command("synth", str(folder / "log.tsv"), "--sessions", "2000").returncode == 0
    options = ("--min-users", "1", "--no-spelling", "--out", str(folder / "data"))
    assert command("prepare", str(folder / "log.tsv"), *options).returncode == 0
    return folder / "data"
