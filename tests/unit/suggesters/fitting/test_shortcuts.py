"""Sessions grouped by their end: which ends count, and what their documents hold."""

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nextquery import prepare
from nextquery.errors import InputError
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.shortcuts import Shortcuts, ShortcutsSettings

SESSIONS = [
    ("u1", ["shoes", "red boots"]),
    ("u2", ["socks", "red boots"]),
    ("u3", ["red boots", "shoes"]),
]
CLICKS = [("u1", "red boots", "/boots"), ("u2", "red boots", "/boots")]


def endings(model: Shortcuts) -> dict[str, float]:
    texts = [model.background.text(int(number)) for number in model.endings]
    return dict(zip(texts, model.sessions.tolist(), strict=True))


def test_ends_that_were_clicked_count(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(Shortcuts, prepared(tiny_log(SESSIONS, clicks=CLICKS)))
    assert endings(model) == {"red boots": 2}
    assert model.settings.satisfactory is True


def test_all_ends_count_where_asked_or_where_nothing_was_clicked(
    prepared: Any, tiny_log: Any
) -> None:
    asked = ShortcutsSettings(satisfactory=False)
    for model in (
        fit_model(Shortcuts, prepared(tiny_log(SESSIONS, clicks=CLICKS)), asked),
        fit_model(Shortcuts, prepared(tiny_log(SESSIONS))),
    ):
        assert endings(model) == {"red boots": 2, "shoes": 1}
        assert model.settings.satisfactory is False


def test_clicks_that_are_asked_for_and_missing_are_an_error(prepared: Any, tiny_log: Any) -> None:
    with pytest.raises(InputError, match="no session ends in a known query that was clicked"):
        fit_model(Shortcuts, prepared(tiny_log(SESSIONS)), ShortcutsSettings(satisfactory=True))


def test_old_sessions_weigh_less_and_then_leave(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, days=[0, 4, 4]))
    model = fit_model(Shortcuts, data, ShortcutsSettings(half_life_days=4))
    assert endings(model) == pytest.approx({"red boots": 1.5, "shoes": 1})
    model = fit_model(Shortcuts, data, ShortcutsSettings(window_days=2))
    assert endings(model) == {"red boots": 1, "shoes": 1}


GROWN = """
import resource, sys
import nextquery
nextquery.fit(sys.argv[1], "shortcuts")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
nextquery.fit(sys.argv[2], "shortcuts")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def _monitored_log(file: Path, searches: int) -> Path:
    """Sessions of 300 people, and one of a program that searches every minute."""
    queries = ("red shoes", "blue shoes", "green hat", "cheap flights", "paris hotels")
    start = datetime(2006, 3, 1)
    rows = [("monitor", minute, queries[minute % 5]) for minute in range(searches)]
    for user in range(300):
        begin = user * 7919 % 28_800
        rows += [(f"u{user}", begin + step, queries[(user + step) % 5]) for step in range(3)]
    lines = [
        f"{user}\t{query}\t{start + timedelta(minutes=minute)}\t1\thttp://x.example\n"
        for user, minute, query in rows
    ]
    file.write_text("AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n" + "".join(lines))
    return file


def test_memory_does_not_grow_with_the_square_of_a_session(tmp_path: Path) -> None:
    folders = []
    for searches in (10, 3000):
        log = _monitored_log(tmp_path / f"{searches}.tsv", searches)
        folders.append(tmp_path / f"data-{searches}")
        prepare(log, folders[-1], spelling=False, max_session_queries=100_000)
    command = [sys.executable, "-c", GROWN, *map(str, folders)]
    grown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(grown.stdout) < 100  # MB; nine million pairs of queries take 400
