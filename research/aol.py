"""The AOL studies of docs/results: known, held-out and new visitors.

The logs are not distributed, and only aggregates are written.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from research.commands import changed, make, report_of, save
from research.summary import summarise

LAST_WEEKS = ("--split-at", "2006-05-01,2006-05-15,2006-05-23", "--min-users", "1", "--no-spelling")
MINILM = ("--encoder", "research.minilm:encode")
NEXT_QUERY = ("--scenario", "next_query", "--scenario", "robust", "--min-followers", "5")
COPYING = ("train.epochs=6", "model.decoder_context=first")
PLAIN = ("train.epochs=6", "model.copy=false")
EVERY_CONTEXT = ("--scenario", "every_context", "--seeds", "2", "--ranker-cases", "1000")
QUICK = ("--generation-contexts", "20", "--completion-contexts", "10")
"""Analyses that the study does not use get few contexts."""


def new_visitors(work: Path, logs: Sequence[Path]) -> None:
    """New visitors on all sessions of the logs: two kinds of ranker cases, and every context."""
    options = [*_folded(work, logs), *NEXT_QUERY, *QUICK, "--visitors", "new"]
    options += ["--new-visitor-cases", "all"]
    save("aol", summarise(report_of(work / "report", [*options, *MINILM])))
    _share_folds(work / "report", work / "report-every")
    every = [*options, "--ranker-positions", "every"]
    save("aol_every", summarise(report_of(work / "report-every", every)))
    _share_folds(work / "report", work / "report-new-contexts")
    apart = [*_folded(work, logs), *QUICK, "--visitors", "new", "--new-visitor-cases", "all"]
    apart += EVERY_CONTEXT
    save("aol_new_contexts", summarise(report_of(work / "report-new-contexts", apart)))


def meaning(work: Path, logs: Sequence[Path]) -> None:
    """New visitors, every context of some users: what HRED adds to a sentence encoder.

    The fold models are those of `new_visitors`, if it was run in the same folder.
    """
    options = [*_folded(work, logs), *QUICK, *MINILM, "--visitors", "new"]
    options += ["--new-visitor-cases", "all", "--test-users", "300", *EVERY_CONTEXT]
    if (work / "report").exists():
        _share_folds(work / "report", work / "report-meaning")
    save("aol_meaning", summarise(report_of(work / "report-meaning", options)))


def known_visitors(work: Path, logs: Sequence[Path]) -> None:
    """Known visitors, with copying; rankers learn from last queries and from every next query."""
    options = [*known(work, logs, "copying", COPYING), *NEXT_QUERY]
    save("aol_known", summarise(report_of(work / "report-known", options)))
    options += ["--ranker-positions", "every"]
    save("aol_known_every", summarise(report_of(work / "report-known-every", options)))


def held_out(work: Path, logs: Sequence[Path]) -> None:
    """Known visitors and visitors held out from counts, rankers and model, today's defaults.

    The model is trained with K = 3 and spelling correction, as `nextquery prepare` does by default;
    counts are those of the paper (`--min-users 1`).
    """
    data, private, model = work / "data1", work / "data3", work / "hred"
    kept = ("--split-at", LAST_WEEKS[1], "--holdout-users", "0.1")
    make(data, ["prepare", *map(str, logs), "--out", str(data), *LAST_WEEKS, *kept[2:]])
    make(private, ["prepare", *map(str, logs), "--out", str(private), *kept])
    make(model, ["train", str(private), "--out", str(model), "--config", "small"])
    common = [str(data), f"--model=hred={model}", *QUICK, "--visitors", "known"]
    for name, options in (
        ("last", NEXT_QUERY),
        ("every", (*NEXT_QUERY, "--ranker-positions", "every")),
        ("contexts", ("--scenario", "every_context", "--ranker-cases", "1500")),
    ):
        report = report_of(work / f"report-{name}", [*common, *options])
        save(f"aol_held_out_{name}", summarise(report))
    describe([data, private])


def contexts(work: Path, logs: Sequence[Path]) -> None:
    """Every context of known visitors, with copying: all users, and those of the last log."""
    options = [*known(work, logs, "copying", COPYING), *EVERY_CONTEXT]
    save("aol_contexts", summarise(report_of(work / "report-contexts", options)))


def plain(work: Path, logs: Sequence[Path]) -> None:
    """Known visitors, HRED without copying; rankers learn from every next query."""
    options = [*known(work, logs, "plain", PLAIN), *NEXT_QUERY, "--scenario", "long_tail"]
    options += ["--ranker-positions", "every"]
    save("aol_plain", summarise(report_of(work / "report-plain", options)))


def known(work: Path, logs: Sequence[Path], name: str, settings: Sequence[str]) -> list[str]:
    """A `small` model and known visitors; users of the last log are also reported separately."""
    data, model = prepared(work, logs), work / name
    sets = [f"--set={setting}" for setting in settings]
    make(model, ["train", str(data), "--out", str(model), "--config", "small", *sets])
    apart = _users_of(logs[-1], work / "full.txt")
    options = [str(data), f"--model=hred={model}", *QUICK, "--visitors", "known"]
    return [*options, "--users-apart", f"full={apart}"]


def prepared(work: Path, logs: Sequence[Path]) -> Path:
    data = work / "data"
    make(data, ["prepare", *map(str, logs), "--out", str(data), *LAST_WEEKS])
    return data


def _folded(work: Path, logs: Sequence[Path]) -> list[str]:
    """The data, a model and the config of its fold models, whose word vectors begin with MiniLM's.

    With new visitors the fold models take the model's place: it only has to be there.
    """
    data, model = prepared(work, logs), work / "hred"
    config = fold_config(work, data, 4)
    short = ["--config", str(config), "--set", "train.epochs=1"]
    make(model, ["train", str(data), "--out", str(model), *short])
    return [str(data), f"--model=hred={model}", f"--fold-config=hred={config}"]


def fold_config(work: Path, data: Path, epochs: int) -> Path:
    """The config of fold models; makes the word vectors that it names."""
    vectors, config = work / "vectors.safetensors", work / f"fold-{epochs}.toml"
    make(vectors, ["vectors", str(data), "--out", str(vectors), *MINILM, "--words", "20000"])
    values = {
        "epochs": str(epochs),
        "decoder_context": '"first"',
        "word_vectors": f'"{vectors.resolve()}"',
    }
    config.write_text(changed("small", values))
    return config


def _share_folds(report: Path, other: Path) -> None:
    """Fold models that one report of this study has trained need not be trained for another.

    The whole report is copied: `experiment` takes up a report, not a folder of models, and makes
    again what other settings change.
    """
    if not other.exists():
        shutil.copytree(report, other)


def _users_of(log: Path, file: Path) -> Path:
    """The users of a log in AOL's format, one per line."""
    rows = pl.read_csv(log, separator="\t", quote_char=None, columns=["AnonID"], infer_schema=False)
    file.write_text("".join(f"{user}\n" for user in rows["AnonID"].unique().sort()))
    return file


def describe(data: Sequence[Path]) -> None:
    """Counts and checksums of prepared AOL folders, which are not distributed."""
    folders = [json.loads((folder / "manifest.json").read_text()) for folder in data]
    save(
        "aol_data",
        {
            "logs": [
                {**log, "file": "/".join(Path(log["file"]).parts[-2:])}
                for log in folders[0]["logs"]
            ],
            "prepared": [
                {
                    "options": _options(folder["settings"]),
                    "rows": folder["counts"]["rows_read"],
                    "users": folder["counts"]["users"],
                    "sessions": folder["counts"]["sessions"],
                    "checksum": checksum_of_tables(folder["files"]),
                    "files": folder["files"],
                }
                for folder in folders
            ],
        },
    )


def _options(settings: Mapping[str, Any]) -> str:
    spelling = "" if settings["spelling"] else " --no-spelling"
    return (
        f"--min-users {settings['min_users']}{spelling} --holdout-users {settings['holdout_users']}"
    )


def checksum_of_tables(files: Mapping[str, str]) -> str:
    """One sha256 of all tables: of the lines `sha256  name`, as `sha256sum` writes them.

    >>> checksum_of_tables({"b": "2", "a": "1"})[:8]
    'e8fd1d5a'
    """
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()
