"""One valid call of every command, and the files that such calls need."""

import shutil
import subprocess
import sys
from pathlib import Path

from .small_models import FEEDBACK, make_models

CALLS: dict[str, list[str]] = {
    "demo": ["--out", "{out}", "--no-serve", "--sessions", "1000"],
    "init": ["{log}"],
    "synth": ["{out}.tsv", "--sessions", "50"],
    "prepare": ["{log}", "--out", "{out}", "--no-spelling", "--min-users", "1"],
    "update": ["{data}", "{newer}", "--out", "{out}"],
    "forget": ["{data}", "--user", "1", "--out", "{out}"],
    "inspect": ["{data}"],
    "check": ["{adjacency}", "--against", "{qvmm}", "--data", "{data}"],
    "trends": ["{data}"],
    "vectors": ["{data}", "--from", "{vectors}", "--out", "{out}.safetensors",
                "--size", "4"],
    "train": ["{data}", "--out", "{out}", "--config", "tiny", "--set", "train.epochs=1"],
    "fit": ["{data}", "--kind", "adjacency", "--out", "{out}"],
    "blend": ["{hred}", "{adjacency}", "{qvmm}", "--data", "{data}", "--out", "{out}"],
    "suggest": ["{adjacency}", "google"],
    "score": ["{adjacency}", "--candidate", "google", "--context", "maps"],
    "complete": ["{adjacency}", "--prefix", "go"],
    "why": ["{adjacency}", "google"],
    "explain": ["{hred}", "google", "maps"],
    "neighbours": ["{hred}", "google"],
    "experiment": ["{data}", "--model", "{adjacency}", "--out", "{out}", "--seeds", "1",
                   "--generation-contexts", "5", "--completion-contexts", "5"],
    "audit": ["{adjacency}", "{data}", "--canaries", "2", "--contexts", "2",
              "--min-users", "1"],
    "study create": ["--data", "{data}", "--model", "a={adjacency}", "--model", "q={qvmm}",
                     "--out", "{out}", "--sample", "3"],
    "study serve": ["{study}", "--port", "0"],
    "study report": ["{study}", "--out", "{out}"],
    "study first-pass": ["{study}"],
    "serve": ["{adjacency}", "--port", "0"],
    "feedback report": ["{feedback}", "--out", "{out}"],
    "feedback compare": ["{feedback}"],
    "feedback rerank": ["{feedback}", "--base", "{adjacency}", "--out", "{out}",
                        "--min-taken", "50", "--per-origin", "0"],
    "feedback guard": ["{feedback}", "--model", "{reranked}"],
    "export": ["{adjacency}", "--to", "static", "--out", "{out}"],
    "doctor": [],
}  # fmt: skip
"""Arguments by command; names in braces are files that `make_files` writes, `out` is free."""

ENDLESS = ("serve", "study serve", "demo", "train", "experiment", "doctor", "audit")
"""Commands that run until they are told to stop, or for long."""
WRITTEN = ("reranked", "study")
"""What a command writes into, so that each call gets a copy."""


def make_files(folder: Path) -> None:
    """Write all files that the calls need."""
    make_models(folder)
    (folder / "newer.tsv").write_text(_newer(folder / "log1.tsv"), encoding="utf-8")
    (folder / "vectors.txt").write_text("google 1 2 3 4\nmaps 4 3 2 1\n", encoding="utf-8")
    (folder / "blocklist.txt").write_text("google\n", encoding="utf-8")
    _write_study(folder)


def arguments(command: str, work: Path, folder: Path) -> list[str]:
    """The words of the valid call of a command, which writes only below `place`."""
    names = {
        "log": folder / "log1.tsv",
        "newer": folder / "newer.tsv",
        "data": folder / "data1",
        "vectors": folder / "vectors.txt",
        "out": work / "out",
        **{name: folder / name for name in (FEEDBACK, "adjacency", "qvmm", "hred", *WRITTEN)},
    }
    for name in WRITTEN:
        if f"{{{name}}}" in CALLS[command]:
            names[name] = Path(shutil.copytree(folder / name, work / name))
    return [*command.split(), *(word.format(**names) for word in CALLS[command])]


def _newer(log: Path) -> str:
    """A day after the log's last one."""
    header, *rows = log.read_text(encoding="utf-8").splitlines()
    fields = [row.split("\t") for row in rows[-30:]]
    return "\n".join(
        [header, *("\t".join([*f[:2], "2030-01-01 10:00:00", *f[3:]]) for f in fields)]
    )


def _write_study(folder: Path) -> None:
    words = arguments("study create", folder, folder)
    subprocess.run([sys.executable, "-m", "nextquery", *words], check=True, capture_output=True)
    (folder / "out").rename(folder / "study")
    from nextquery.study.pool import JudgementStore

    store = JudgementStore(folder / "study")
    store.tokens(1)
    store.judge(1, 0, "useful")
