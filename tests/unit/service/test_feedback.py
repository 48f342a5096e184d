"""Feedback files: what is written, erased and expired."""

import asyncio
import fcntl
import json
import os
import resource
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.feedback.events import DismissedList, file_name
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
from nextquery.service.schemas import Clicked, Dismissed, Shown

from .conftest import recorded

NOON = datetime(2026, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
WHO = {"query_id": "list-1", "client_id": "browser-1", "query": "red shoes"}
DISMISSED = Dismissed(action="dismissed", **WHO)


@pytest.fixture
def log(tmp_path: Path) -> FeedbackLog:
    return FeedbackLog(tmp_path)


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_shown_is_a_query_and_an_event(log: FeedbackLog, tmp_path: Path) -> None:
    log.write(Shown(action="shown", suggestions=["red boots"], **WHO), NOON)
    assert read(tmp_path / "queries-2026-05-01.ndjson") == [
        {
            "application": "nextquery",
            "query_id": "list-1",
            "client_id": "browser-1",
            "timestamp": "2026-05-01T12:00:00.250Z",
            "user_query": "red shoes",
            "query_response_hit_ids": ["red boots"],
        }
    ]
    [event] = read(tmp_path / "events-2026-05-01.ndjson")
    assert event["action_name"] == "suggestions_shown"


def test_clicked_and_dismissed_are_events(log: FeedbackLog, tmp_path: Path) -> None:
    log.write(Clicked(action="clicked", suggestion="red boots", position=2, **WHO), NOON)
    log.write(DISMISSED, NOON)
    clicked, dismissed = read(tmp_path / "events-2026-05-01.ndjson")
    assert clicked["action_name"] == "suggestion_clicked"
    assert clicked["event_attributes"] == {
        "object": {"object_id": "red boots", "object_id_field": "suggestion"},
        "position": {"ordinal": 2},
    }
    assert dismissed["action_name"] == "suggestions_dismissed"
    assert not (tmp_path / "queries-2026-05-01.ndjson").exists()


def test_only_the_owner_can_read_the_files(log: FeedbackLog, tmp_path: Path) -> None:
    log.write(DISMISSED, NOON)
    mode = (tmp_path / "events-2026-05-01.ndjson").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="`feedback`"):
        FeedbackLog(tmp_path / "file" / "log")


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path / "log")
    (tmp_path / "log").rmdir()
    (tmp_path / "log").write_text("a file now")
    with pytest.raises(FeedbackLostError):
        log.write(DISMISSED, NOON)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Lets no file grow beyond N bytes: the kernel then writes a part, and next time none."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the limit would truncate it
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("left", [0, 1, 20, 100])
def test_a_full_disk_leaves_no_half_line(
    log: FeedbackLog, tmp_path: Path, full_disk: Callable[[int], None], left: int
) -> None:
    path = tmp_path / "events-2026-05-01.ndjson"
    log.write(DISMISSED, NOON)
    first = path.read_bytes()
    full_disk(len(first) + left)
    for _ in range(2):
        with pytest.raises(FeedbackLostError):
            log.write(DISMISSED, NOON)
    assert path.read_bytes() == first
    full_disk(resource.RLIM_INFINITY)
    log.write(DISMISSED, NOON)
    assert path.read_bytes() == first * 2


def test_half_a_line_does_not_swallow_the_next(log: FeedbackLog, tmp_path: Path) -> None:
    """Of a process that was killed while it wrote."""
    path = tmp_path / "events-2026-05-01.ndjson"
    path.write_bytes(b'{"application": "nextqu')
    log.write(DISMISSED, NOON)
    half, whole = path.read_bytes().splitlines()
    assert half == b'{"application": "nextqu'
    assert json.loads(whole)["client_id"] == "browser-1"


def test_a_day_has_a_quota(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path, megabytes=1)
    path = tmp_path / "events-2026-05-01.ndjson"
    path.write_bytes(b" " * 999_990 + b"\n")
    with pytest.raises(FeedbackLostError, match="`feedback_mb`"):
        log.write(DISMISSED, NOON)
    assert path.stat().st_size == 999_991
    log.write(DISMISSED, NOON + timedelta(days=1))
    assert len(read(tmp_path / "events-2026-05-02.ndjson")) == 1


ANN = Visitor("ann")


def _event(visitor: str, number: int = 0, owner: str = "", query: str = "q") -> DismissedList:
    return DismissedList(f"list-{number}", visitor, NOON, query, owner=owner)


def test_a_visitor_s_lines_go_and_nobody_else_s(log: FeedbackLog, tmp_path: Path) -> None:
    for visitor in ("ann", "bob", "ann", "ann-2"):
        log.append(_event(visitor))
    log.append(_event("bob", query="ann"))
    (tmp_path / "notes.txt").write_text('{"client_id": "ann"}\n')
    assert erase_visitors(tmp_path, [ANN]) == 2
    assert [item.client_id for item in recorded(tmp_path)] == ["bob", "ann-2", "bob"]
    assert '"ann"' in (tmp_path / "notes.txt").read_text()
    assert erase_visitors(tmp_path, [ANN, Visitor("never seen")]) == 0
    assert erase_visitors(tmp_path / "none", [ANN]) == 0


def test_an_erased_line_is_json_that_says_nothing(log: FeedbackLog, tmp_path: Path) -> None:
    log.append(_event("ann", query="a secret"))
    asyncio.run(log.forget(ANN))
    [path] = tmp_path.iterdir()
    assert json.loads(path.read_text()) == {}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_erases_its_own_visitors_only(log: FeedbackLog, tmp_path: Path) -> None:
    for owner in ("shop", "news", ""):
        log.append(_event("ann", owner=owner))
    erase_visitors(tmp_path, [Visitor("ann", "shop")])
    assert [item.owner for item in recorded(tmp_path)] == ["news"]
    erase_visitors(tmp_path, [ANN])  # where no keys are used, everybody has the same rights
    assert not recorded(tmp_path)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_longer_than_what_is_read_at_once_are_found(
    log: FeedbackLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(feedback, "CHUNK", size)
    for number in range(12):
        log.append(_event("ann" if number % 3 else "bob", number, query="x" * number * 20))
    assert erase_visitors(tmp_path, [ANN]) == 8
    assert [item.query_id for item in recorded(tmp_path)] == [f"list-{n}" for n in (0, 3, 6, 9)]


def test_torn_lines_that_name_the_visitor_go(log: FeedbackLog, tmp_path: Path) -> None:
    """Half a line that swallowed another visitor's, one in the middle, one at the very end."""
    path = tmp_path / file_name("events", NOON)
    half = b'{"application": "nextquery", "client_id": "ann", "user_query": "secr'
    whole = json.dumps({"application": "shop", "client_id": "bob"}).encode()
    path.write_bytes(half + whole + b"\n" + half + b"\n" + whole + b"\n" + half)
    asyncio.run(log.forget(ANN))
    assert b"ann" not in path.read_bytes()
    assert path.read_bytes().count(whole) == 1
    log.append(_event("carl"))
    assert [item.client_id for item in recorded(tmp_path)] == ["carl"]


def test_a_line_without_end_is_refused(
    log: FeedbackLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "LONGEST_LINE", 1000)
    (tmp_path / file_name("events", NOON)).write_bytes(b"x" * (CHUNK + 2000))
    with pytest.raises(FeedbackLostError, match=r"events-2026-05-01\.ndjson: has a line"):
        asyncio.run(log.forget(ANN))


def test_files_that_cannot_be_changed_are_an_error(log: FeedbackLog, tmp_path: Path) -> None:
    path = tmp_path / file_name("events", NOON)
    log.append(_event("ann"))
    with path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(FeedbackLostError, match="locked"):
            asyncio.run(log.forget(ANN))
        begin = time.monotonic()
        with pytest.raises(FeedbackLostError, match="locked"):
            log.append(_event("bob"))
        assert time.monotonic() - begin < 10, "the service does not wait for others"
    asyncio.run(log.forget(ANN))
    assert b"ann" not in path.read_bytes()


def test_pipes_and_folders_of_that_name_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / file_name("lists", NOON)).mkdir()
    os.mkfifo(tmp_path / file_name("events", NOON))
    assert erase_visitors(tmp_path, [ANN]) == 0


def test_nothing_that_is_written_meanwhile_is_lost(log: FeedbackLog, tmp_path: Path) -> None:

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
    assert [item.client_id for item in recorded(tmp_path)] == ["bob"] * 400


def test_requests_during_a_pass_share_the_next_one(
    log: FeedbackLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[set[str]] = []

    def erase(folder: Path, visitors: set[Visitor]) -> int:
        passes.append({visitor.client_id for visitor in visitors})
        return erase_visitors(folder, visitors)

    monkeypatch.setattr(feedback, "erase_visitors", erase)
    names = [f"visitor-{number}" for number in range(20)]
    for name in names:
        log.append(_event(name))

    async def scenario() -> None:
        await asyncio.gather(*(log.forget(Visitor(name)) for name in names))

    asyncio.run(scenario())
    assert not recorded(tmp_path)
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
    log: FeedbackLog, tmp_path: Path, days: int, ahead: int
) -> None:
    names = {file_name("events", NOON - timedelta(days=back)) for back in range(days)}
    for name in names:
        (tmp_path / name).write_text("")
    wrong = NOON + timedelta(days=ahead)
    log.append(DismissedList("l", "v", wrong, "q"))
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


def test_a_slow_clock_deletes_nothing(tmp_path: Path) -> None:
    (tmp_path / file_name("events", NOON)).write_text("")
    assert expire(tmp_path, 1, date(1970, 1, 1)) == []
    assert len(list(tmp_path.iterdir())) == 1
