"""The commands of README, quickstart, tutorial and how-to pages run, in a small site's folder.

Blocks of the languages sh, console and python are run, line by line, on small data. A block that
cannot run has a comment `<!-- not run: reason -->` before it. Output that a page shows after `$ `
is compared where the page's own data is used (the quickstart).
"""

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.unit.feedback.made_up import VISITORS, ranked
from typer.testing import CliRunner

from nextquery import fit, prepare, train
from nextquery.cli.main import app
from nextquery.feedback.simulated_visitors import SimulatedService, simulate
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
NOT_OURS = {"pip", "python3", "zcat", "curl"}
"""Programs whose lines are shown in blocks and not run."""
SMALLER = {
    "--sessions 40000": "--sessions 1500",
    "--config tiny": "--config tiny --set train.epochs=1 --set model.query_size=16",
}
"""What makes the tutorial quick enough for a test."""
_BLOCK = re.compile(
    r"(?:^<!-- (not run[^>]*?) -->\n)?^```(sh|console|python)\n(.*?)^```$", re.M | re.S
)


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
            yield from ((line, []) for line in lines if line.strip() and line[0] != "#")
            return
        command, output = "", list[str]()
        for line in [*lines, "$ "]:
            if line.startswith("$ "):
                if command:
                    yield command, output
                command, output = line[2:], []
            else:
                output.append(line)


def blocks(page: Path) -> list[Block]:
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [Block(language, text, not_run) for not_run, language, text in found]


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
    small = ["train.epochs=1", "model.query_size=16", "model.session_size=16"]
    train(data, home / "hred", "tiny", small)
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


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_the_commands_of_a_page_run(page: Path, work: Path) -> None:
    compared = page.stem == "quickstart"
    if compared:
        shutil.rmtree("data")
        shutil.rmtree("adjacency")
    for block in blocks(page):
        if block.not_run:
            continue
        if block.language == "python":
            exec(compile(block.text, str(page), "exec"), {"__name__": "page"})
            continue
        for command, output in block.steps():
            _run(command if compared else _smaller(command), output if compared else [])


def _smaller(command: str) -> str:
    for text, smaller in SMALLER.items():
        command = command.replace(text, smaller)
    return command


def _run(command: str, output: list[str]) -> None:
    words = shlex.split(command, comments=True)
    if words[0] in NOT_OURS:
        return
    if words[0] == "echo":
        Path(words[3]).write_text(f"{words[1]}\n")
        return
    assert words[0] == "nextquery", f"neither run nor marked: {command}"
    ended = CliRunner().invoke(app, words[1:])
    assert ended.exit_code == 0, f"{command}\n{ended.output}\n{ended.exception!r}"
    printed = ended.stdout.splitlines() + ended.stderr.splitlines()
    for line in output:
        if line != "..." and " in " not in line:  # "in 0.9 s"
            assert line in printed, f"{command} does not print: {line}"


def test_blocks_that_do_not_run_say_why() -> None:
    marked = [block.not_run for page in PAGES for block in blocks(page) if block.not_run]
    assert marked
    assert not [reason for reason in marked if len(reason.partition(": ")[2]) < 5]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_are_in_blocks_with_a_language(page: Path) -> None:
    parts = re.split(r"^```(.*)\n", page.read_text(encoding="utf-8"), flags=re.M)
    blocks_by_language = zip(parts[1::4], parts[2::4], strict=True)
    plain = [text for language, text in blocks_by_language if not language]
    assert not [text for text in plain if re.search(r"^(\$ )?(nextquery|curl) ", text, re.M)]
