"""Promises of the guard: disguises by class."""

import csv
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import PrepareSettings, prepare
from nextquery.normalise import normalise_query
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.loading import load
from nextquery.suggesters.popularity import Popularity
from promises.disguises import BLOCKED, CLASSES, variants
from promises.rows import Row

USERS = 3
"""Every text is typed by so many users, K of the k-user rule, so that only the guard stops it."""


def disguises(quick: bool) -> Iterator[Row]:
    """Logs full of disguised words; what of them a model suggests behind a blocklist."""
    texts: dict[str, list[str]] = defaultdict(list)
    for name, _, text in variants(quick):
        texts[name].append(text)
    every = [text for found in texts.values() for text in found]
    with tempfile.TemporaryDirectory() as folder:
        shown, free = _suggested(Path(folder), every)
    for name in CLASSES:
        wanted = [normalise_query(text) for text in texts[name]]
        held = sum(text not in shown for text in wanted)
        leaked = sum(text in free for text in wanted)
        promise = f"a blocked word stays away: {name}"
        yield Row("guards", promise, len(wanted), held, "no blocklist", leaked)


def _suggested(folder: Path, texts: Iterable[str]) -> tuple[set[str], set[str]]:
    """All that a model of these texts suggests behind the blocklist, and without one."""
    model = fitted(folder, texts)
    blocklist = folder / "blocked.txt"
    blocklist.write_text("\n".join(BLOCKED) + "\n", encoding="utf-8")
    most = 1_000_000
    shown = {item.text for item in load(model, blocklist=blocklist).suggest([], most)}
    return shown, {item.text for item in load(model).suggest([], most)}


def fitted(folder: Path, texts: Iterable[str]) -> Path:
    """A popularity model of a log in which `USERS` users type each text, and nothing else."""
    log = folder / "log.csv"
    with log.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["user", "time", "query"])
        for user in range(USERS):
            for number, text in enumerate(texts):
                hour, minute = divmod(number * 2, 60)
                day, hour = divmod(hour, 24)
                writer.writerow([f"u{user}", f"2026-03-{day + 1:02}T{hour:02}:{minute:02}", text])
    settings = PrepareSettings(
        split_at="2027-01-01,2027-01-02,2027-01-03", spelling=False, min_users=USERS
    )
    prepare([log], folder / "data", settings)
    fit_model(Popularity, PreparedData(folder / "data")).save(folder / "model")
    return folder / "model"


TESTS = (disguises,)
