"""The facts of a log that is small enough to count by hand."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from nextquery.logs.data_folder import PreparedData
from nextquery.logs.inspect import Lengths, describe, draw_lengths
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings, ReadSettings

SESSIONS = {
    "2024-01-01": ["a b", "a b c a", "d a", "a b c d e", "x", "b"],
    "2024-02-01": ["a b", "x a y"],
    "2024-03-01": ["b c"],
    "2024-04-01": ["z y x w v"],
}
"""The sessions of a day, each of a user of its own, a letter a query."""


@pytest.fixture
def data(tmp_path: Path) -> PreparedData:
    lines, user = ["AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"], 0
    for day, sessions in SESSIONS.items():
        for queries in sessions:
            user += 1
            time = datetime.fromisoformat(day)
            for query in queries.split():
                time += timedelta(minutes=1)
                lines.append(f"{user}\t{query}\t{time:%Y-%m-%d %H:%M:%S}\t\t\n")
    log = tmp_path / "log.tsv"
    log.write_text("".join(lines))
    settings = PrepareSettings(
        read=ReadSettings("aol"),
        split_at="2024-02-01,2024-03-01,2024-04-01",
        min_users=1,
        spelling=False,
    )
    prepare([log], tmp_path / "data", settings)
    return PreparedData(tmp_path / "data")


def test_facts(data: PreparedData) -> None:
    facts = describe(data, frequent=2)
    assert facts.counts["sessions"] == {
        "background": 4,
        "training": 2,
        "validation": 1,
        "test": 1,
    }
    assert facts.lengths["background"] == Lengths(short=0.5, medium=0.25, long=0.25)
    assert facts.lengths["training"] == Lengths(short=0.5, medium=0.5, long=0)
    assert facts.counts["single_query_sessions"]["background"] == 2
    # 15 background searches: a five times, b four, c twice, d twice, e and x once
    assert facts.repetition.repeated_in_background == pytest.approx(13 / 15)
    assert facts.repetition.seen_before["training"] == pytest.approx(4 / 5)
    assert facts.repetition.sessions_with_a_return == 0.25
    # Followers of the anchors in the background: a has b; x, b and w have none or few.
    assert facts.anchors_with_followers["training"] == {20: 0.0, 5: 0.0}
    assert facts.frequent_queries == (("a", 5, 4), ("b", 4, 4))


def test_the_figure_is_a_png(data: PreparedData, tmp_path: Path) -> None:
    draw_lengths(describe(data), tmp_path / "lengths.png")
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")
