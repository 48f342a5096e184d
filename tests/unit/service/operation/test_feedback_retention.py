"""Lines and files that go, while others are being written."""

import asyncio
import fcntl
import json
import os
import threading
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from nextquery.feedback.events import DismissedList, FeedbackEvent, file_name, parse_line
from nextquery.service import feedback
from nextquery.service.feedback import (
    CHUNK,
    ClockDoubtedError,
    FeedbackLog,
    FeedbackLostError,
    Visitor,
    erase_visitors,
    expire,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
ANN = Visitor("ann")


def _event(visitor: str, number: int = 0, owner: str = "", query: str = "q") -> DismissedList:
    return DismissedList(f"list-{number}", visitor, NOON, query, owner=owner)


def _events(folder: Path) -> list[FeedbackEvent]:
    """What a reader finds; erased lines are none, and nothing else is broken."""
    texts = [path.read_bytes() for path in sorted(folder.glob("*.ndjson"))]
    lines = [line for text in texts for line in text.splitlines()]
    return [event for line in lines if (event := parse_line(line)) is not None]


def test_a_visitor_s_lines_go_and_nobody_else_s(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path)
    for visitor in ("ann", "bob", "ann", "ann-2"):
        log.append(_event(visitor))
    log.append(_event("bob", query="ann"))
    (tmp_path / "notes.txt").write_text('{"client_id": "ann"}\n')
    assert erase_visitors(tmp_path, [ANN]) == 2
    assert [each.client_id for each in _events(tmp_path)] == ["bob", "ann-2", "bob"]
    assert '"ann"' in (tmp_path / "notes.txt").read_text()
    assert erase_visitors(tmp_path, [ANN, Visitor("never seen")]) == 0
    assert erase_visitors(tmp_path / "none", [ANN]) == 0


def test_an_erased_line_is_json_that_says_nothing(tmp_path: Path) -> None:
    FeedbackLog(tmp_path).append(_event("ann", query="a secret"))
    asyncio.run(FeedbackLog(tmp_path).forget(ANN))
    [path] = tmp_path.iterdir()
    assert json.loads(path.read_text()) == {}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_erases_its_own_visitors_only(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path)
    for owner in ("shop", "news", ""):
        log.append(_event("ann", owner=owner))
    erase_visitors(tmp_path, [Visitor("ann", "shop")])
    assert [each.owner for each in _events(tmp_path)] == ["news"]
    erase_visitors(tmp_path, [ANN])  # where no keys are used, everybody has the same rights
    assert not _events(tmp_path)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_longer_than_what_is_read_at_once_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(feedback, "CHUNK", size)
    log = FeedbackLog(tmp_path)
    for number in range(12):
        log.append(_event("ann" if number % 3 else "bob", number, query="x" * number * 20))
    assert erase_visitors(tmp_path, [ANN]) == 8
    assert [each.query_id for each in _events(tmp_path)] == ["list-0", "list-3", "list-6", "list-9"]


def test_torn_lines_that_name_the_visitor_go(tmp_path: Path) -> None:
    """Half a line that swallowed another visitor's, one in the middle, one at the very end."""
    path = tmp_path / file_name("events", NOON)
    half = b'{"application": "nextquery", "client_id": "ann", "user_query": "secr'
    whole = json.dumps({"application": "shop", "client_id": "bob"}).encode()
    path.write_bytes(half + whole + b"\n" + half + b"\n" + whole + b"\n" + half)
    asyncio.run(FeedbackLog(tmp_path).forget(ANN))
    assert b"ann" not in path.read_bytes()
    assert path.read_bytes().count(whole) == 1
    FeedbackLog(tmp_path).append(_event("carl"))
    assert [each.client_id for each in _events(tmp_path)] == ["carl"]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback, "LONGEST_LINE", 1000)
    (tmp_path / file_name("events", NOON)).write_bytes(b"x" * (CHUNK + 2000))
    with pytest.raises(FeedbackLostError, match=r"events-2026-05-01\.ndjson: has a line"):
        asyncio.run(FeedbackLog(tmp_path).forget(ANN))


def test_files_that_cannot_be_changed_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / file_name("events", NOON)
    FeedbackLog(tmp_path).append(_event("ann"))
    with path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(FeedbackLostError, match="locked"):
            asyncio.run(FeedbackLog(tmp_path).forget(ANN))
        begin = time.monotonic()
        with pytest.raises(FeedbackLostError, match="locked"):
            FeedbackLog(tmp_path).append(_event("bob"))
        assert time.monotonic() - begin < 10, "the service does not wait for others"
    asyncio.run(FeedbackLog(tmp_path).forget(ANN))
    assert b"ann" not in path.read_bytes()


def test_pipes_and_folders_of_that_name_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / file_name("lists", NOON)).mkdir()
    os.mkfifo(tmp_path / file_name("events", NOON))
    assert erase_visitors(tmp_path, [ANN]) == 0


def test_nothing_that_is_written_meanwhile_is_lost(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path)

    def write() -> None:
        for number in range(200):
            log.append(_event("bob", number))
            log.append(_event("ann", number))

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        erase_visitors(tmp_path, [ANN])
    for writer in writers:
        writer.join()
    erase_visitors(tmp_path, [ANN])
    assert [each.client_id for each in _events(tmp_path)] == ["bob"] * 400


def test_who_asks_during_a_pass_waits_for_the_next_one_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[set[str]] = []
    from nextquery.service import feedback

    def erase(folder: Path, visitors: set[Visitor]) -> int:
        passes.append({visitor.client_id for visitor in visitors})
        return erase_visitors(folder, visitors)

    monkeypatch.setattr(feedback, "erase_visitors", erase)
    log = FeedbackLog(tmp_path)
    names = [f"visitor-{number}" for number in range(20)]
    for name in names:
        log.append(_event(name))

    async def scenario() -> None:
        await asyncio.gather(*(log.forget(Visitor(name)) for name in names))

    asyncio.run(scenario())
    assert not _events(tmp_path)
    assert len(passes) == 2
    assert set.union(*passes) == set(names)


def test_files_of_old_days_go(tmp_path: Path) -> None:
    names = [file_name("events", datetime(2026, 5, day, tzinfo=UTC)) for day in (1, 2, 3)]
    for name in (*names, "notes-2026-05-01.txt"):
        (tmp_path / name).write_text("")
    assert expire(tmp_path, 2, date(2026, 5, 3)) == names[:1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*names[1:], "notes-2026-05-01.txt"]
    assert expire(tmp_path, 1, date(2026, 5, 3)) == names[1:2]


@pytest.mark.parametrize("days", [1, 30])
@pytest.mark.parametrize("ahead", [40, 3650])
def test_a_clock_that_is_wrong_by_years_deletes_nothing(
    tmp_path: Path, days: int, ahead: int
) -> None:
    names = {file_name("events", NOON - timedelta(days=back)) for back in range(days)}
    for name in names:
        (tmp_path / name).write_text("")
    wrong = NOON + timedelta(days=ahead)
    FeedbackLog(tmp_path).append(DismissedList("l", "v", wrong, "q"))
    for _ in range(2):
        with pytest.raises(ClockDoubtedError, match="if the clock is right"):
            expire(tmp_path, days, wrong.date())
    assert names <= {path.name for path in tmp_path.iterdir()}


def test_after_a_long_pause_old_files_go_one_day_later(tmp_path: Path) -> None:
    """Nobody sends feedback any more, and the service is restarted every day."""
    name = file_name("events", NOON)
    (tmp_path / name).write_text("")
    today = NOON.date() + timedelta(days=90)
    with pytest.raises(ClockDoubtedError):
        expire(tmp_path, 30, today)
    assert expire(tmp_path, 30, today + timedelta(days=1)) == [name]


def test_a_clock_that_is_behind_deletes_nothing(tmp_path: Path) -> None:
    (tmp_path / file_name("events", NOON)).write_text("")
    assert expire(tmp_path, 1, date(1970, 1, 1)) == []
    assert len(list(tmp_path.iterdir())) == 1
