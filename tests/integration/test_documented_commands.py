"""The commands of README, quickstart, tutorial and how-to pages run, in a small site's folder.

Blocks of the languages sh, console and python are run, command by command, on small data; `serve`
starts a real service, which the `curl` lines after it ask. Blocks whose first line names a file
(`# service.toml`) are written to that file. A block that cannot run has a comment
`<!-- not run: reason -->` before it, or `<!-- not run here: test -->` with the test that runs it.
Output that a page shows is compared where the page's own data is used (the quickstart).
"""

import argparse
import contextlib
import gzip
import itertools
import json
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest
from tests.conftest import PATIENCE, RunningService
from tests.simulated_visitors import SimulatedService, simulate
from tests.unit.feedback.made_up import VISITORS, ranked
from typer.testing import CliRunner

from nextquery import fit, prepare, train
from nextquery.cli.main import app
from nextquery.logs.synthetic.log import write_log
from nextquery.service.feedback import FeedbackLog

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    DOCS / "get-started" / "quickstart.md",
    DOCS / "get-started" / "tutorial.md",
    *sorted((DOCS / "how-to").glob("*.md")),
]
IDS = [page.stem for page in PAGES]
COLUMNS = {"user": "AnonID", "time": "QueryTime", "query": "Query", "click": "ClickURL"}
INSTALLATION = {"pip", "python3", "."}
"""Programs of an installation: tests/install installs."""
TRAINING = "--set train.max_steps=20 --set model.query_size=16 --set model.session_size=16"
SMALLER = {
    "--sessions 40000": "--sessions 1500",
    "--config tiny": f"--config tiny {TRAINING}",
    "--config small": f"--config tiny {TRAINING}",
    "--visitors 600": "--visitors 40",
    "--workers 4": "--workers 2",
    "--generation-contexts 500 --completion-contexts 100": "--generation-contexts 20 "
    "--completion-contexts 5",
}
"""What makes the commands quick enough for a test."""
SERVICE = re.compile(r"(?:http://)?(?:localhost|127\.0\.0\.1):8000")
REDIS = re.compile(r"redis://[\w:/]+")
_BLOCK = re.compile(r"(?:^<!-- (not run[^>]*?) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
_FILE = re.compile(r"# ([\w-]+\.(?:toml|txt))\n")


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    language: str
    text: str
    not_run: str

    def steps(self) -> Iterator[tuple[str, list[str]]]:
        """Every command with the output that the page shows for it."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "sh":
            yield from ((command, []) for command in _whole_commands(lines))
            return
        command, output = "", list[str]()
        for line in [*lines, "$ "]:
            if line.startswith("$ "):
                if command:
                    yield command, output
                command, output = line[2:], []
            else:
                output.append(line)


def _whole_commands(lines: list[str]) -> Iterator[str]:
    """Lines of a script joined where a quoted text goes over several of them."""
    command = ""
    for line in lines:
        command += f"\n{line}" if command else line
        if command.count("'") % 2 == 0:
            if command.strip() and command[0] != "#":
                yield command
            command = ""
    assert not command, f"a quote is not closed: {command}"


def blocks(page: Path) -> list[Block]:
    matches = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [Block(language, text, not_run) for not_run, language, text in matches]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages take for granted: logs in several forms, data, models, feedback."""
    home = tmp_path_factory.mktemp("site")
    write_log(home / "queries.tsv.gz", 1500, seed=1, titles=home / "titles.txt")
    write_log(home / "new-day.tsv.gz", 50, seed=2)
    log = pl.read_csv(home / "queries.tsv.gz", separator="\t", infer_schema=False)
    names = {"AnonID": "visitor", "QueryTime": "ts", "Query": "q", "ClickURL": "url"}
    log.rename(names).write_csv(home / "searches.csv")
    names = {column: field for field, column in COLUMNS.items()}
    log.rename(names).with_columns(site=pl.lit("shop")).write_csv(home / "log.csv")
    (home / "staff.txt").write_text("1001\n")
    (home / "products.csv").write_text("id,name\n1,red boots\n2,red box\n")
    (home / "blocked.txt").write_text("casino\n")
    data = prepare(home / "queries.tsv.gz", home / "data", spelling=False, min_users=2)
    earlier = log.filter(pl.col("QueryTime") < "2006-05-10")
    prepare(earlier, home / "data-last-month", columns=COLUMNS, spelling=False, min_users=2)
    for folder in (home / "adjacency", home / "models" / "adjacency"):
        fit(data, "adjacency", folder)
    train(data, home / "hred", "tiny", TRAINING.replace("--set ", "").split())
    shutil.copytree(home / "hred", home / "models" / "hred")
    arguments = ["blend", "hred", "adjacency", "--data", "data", "--out"]
    with contextlib.chdir(home):
        for target in ("blend", "models/blend"):
            assert CliRunner().invoke(app, [*arguments, target]).exit_code == 0
    _write_feedback(home / "feedback")
    return home


def _write_feedback(folder: Path) -> None:
    service = SimulatedService({"adj": ranked(0.2), "blend": ranked(0.0)}, "interleave")
    log = FeedbackLog(folder)
    for event in simulate(VISITORS, service, 100, np.random.default_rng(1), 0):
        log.append(event)


@pytest.fixture
def work(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    return folder


class PageRunner:
    """Runs the commands of a page; its services listen on free ports."""

    def __init__(self, request: pytest.FixtureRequest, *, compared: bool) -> None:
        self._request = request
        self._compared = compared
        self._service: RunningService | None = None

    def run(self, command: str, output: list[str]) -> None:
        for text, smaller in {} if self._compared else SMALLER.items():
            command = command.replace(text, smaller)
        if "redis://" in command:
            redis = self._request.getfixturevalue("redis_server")
            command = REDIS.sub(redis.url, command)
        if self._service:
            command = SERVICE.sub(self._service.url, command)
        for part in command.split(" && "):
            self._run_program(shlex.split(part, comments=True), output)

    def _run_program(self, words: list[str], output: list[str]) -> None:
        name, *arguments = words
        if name in INSTALLATION:
            return
        if name == "echo":
            Path(words[3]).write_text(f"{words[1]}\n")
        elif name == "zcat":
            with gzip.open(words[1], "rt") as file:
                self._compare(words, list(itertools.islice(file, int(words[-1][1:]))), output)
        elif name == "curl":
            self._ask(arguments, output)
        elif name == "python":
            _run_script(arguments)
        elif words[:2] == ["nextquery", "serve"] and "--new-key" not in words:
            self.stop()
            self._service = self._request.getfixturevalue("start_service")(*words[2:])
        else:
            assert name == "nextquery", f"neither run nor marked: {words}"
            ended = CliRunner().invoke(app, arguments)
            assert ended.exit_code == 0, f"{words}\n{ended.output}\n{ended.exception!r}"
            printed = ended.stdout.splitlines() + ended.stderr.splitlines()
            self._compare(words, printed, output)

    def _compare(self, words: list[str], printed: list[str], output: list[str]) -> None:
        if self._compared:
            for line in output:
                if line != "..." and " in " not in line:  # "in 0.9 s"
                    assert line in printed, f"{words} does not print: {line}"

    def _ask(self, arguments: list[str], output: list[str]) -> None:
        """A request of curl to the page's service; the answer has the fields that are shown."""
        assert self._service, f"no service before: curl {arguments}"
        parser = argparse.ArgumentParser()
        parser.add_argument("-s", action="store_true")
        parser.add_argument("-X")
        parser.add_argument("-H", default="Accept: */*")
        parser.add_argument("-d")
        parser.add_argument("url")
        curl = parser.parse_args(arguments)
        method = curl.X or ("POST" if curl.d else "GET")
        headers = dict([curl.H.split(": ")])
        answer = httpx.request(method, curl.url, content=curl.d, headers=headers, timeout=PATIENCE)
        assert answer.is_success, f"curl {arguments}: {answer.text}"
        if output:
            shown, received = json.loads("".join(output)), answer.json()
            assert shown.keys() == received.keys()
            if self._compared:
                assert shown.pop("query_id") != received.pop("query_id")
                assert shown == received

    def stop(self) -> None:
        if self._service:
            assert self._service.stop() == 0, "".join(self._service.log[-20:])
        self._service = None


def _run_script(arguments: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", arguments)
        runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")


MADE_BY_THE_PAGE = {
    "quickstart": ["data", "adjacency"],
    "tutorial": ["data", "adjacency", "hred", "blend", "feedback"],
}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_the_commands_of_a_page_run(page: Path, work: Path, request: pytest.FixtureRequest) -> None:
    for folder in MADE_BY_THE_PAGE.get(page.stem, []):
        shutil.rmtree(folder)
    runner = PageRunner(request, compared=page.stem == "quickstart")
    for block in blocks(page):
        if file := _FILE.match(block.text):
            Path(file[1]).write_text(block.text)
        elif block.not_run or block.language not in ("sh", "console", "python"):
            continue
        elif block.language == "python":
            exec(compile(block.text, str(page), "exec"), {"__name__": "page"})
        else:
            for command, output in block.steps():
                runner.run(command, output)
    runner.stop()


def test_blocks_that_do_not_run_say_why() -> None:
    marked = [block.not_run for page in PAGES for block in blocks(page) if block.not_run]
    assert marked
    assert not [reason for reason in marked if len(reason.partition(": ")[2]) < 5]
    elsewhere = [reason for reason in marked if reason.startswith("not run here")]
    tests = [re.search(r"tests/[\w/]+\.py", reason) for reason in elsewhere]
    assert not [r for r, test in zip(elsewhere, tests, strict=True) if not test]
    assert not [test[0] for test in tests if test and not (ROOT / test[0]).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_are_in_blocks_with_a_language(page: Path) -> None:
    parts = re.split(r"^```(.*)\n", page.read_text(encoding="utf-8"), flags=re.M)
    blocks_by_language = zip(parts[1::4], parts[2::4], strict=True)
    plain = [text for language, text in blocks_by_language if not language]
    assert not [text for text in plain if re.search(r"^(\$ )?(nextquery|curl) ", text, re.M)]
