import json
import resource
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.service.feedback import FeedbackLog, FeedbackLostError
from nextquery.service.schemas import Clicked, Dismissed, Shown

NOON = datetime(2026, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
WHO = {"query_id": "list-1", "client_id": "browser-1", "query": "red shoes"}


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_shown_is_a_query_and_an_event(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path)
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


def test_clicked_and_dismissed_are_events(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path)
    log.write(Clicked(action="clicked", suggestion="red boots", position=2, **WHO), NOON)
    log.write(Dismissed(action="dismissed", **WHO), NOON)
    clicked, dismissed = read(tmp_path / "events-2026-05-01.ndjson")
    assert clicked["action_name"] == "suggestion_clicked"
    assert clicked["event_attributes"] == {
        "object": {"object_id": "red boots", "object_id_field": "suggestion"},
        "position": {"ordinal": 2},
    }
    assert dismissed["action_name"] == "suggestions_dismissed"
    assert not (tmp_path / "queries-2026-05-01.ndjson").exists()


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    FeedbackLog(tmp_path).write(Dismissed(action="dismissed", **WHO), NOON)
    mode = (tmp_path / "events-2026-05-01.ndjson").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="`feedback`"):
        FeedbackLog(tmp_path / "file" / "log")


def test_a_folder_that_was_taken_away_is_made_again(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path / "log")
    (tmp_path / "log").rmdir()
    log.write(Dismissed(action="dismissed", **WHO), NOON)
    assert len(read(tmp_path / "log" / "events-2026-05-01.ndjson")) == 1


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path / "log")
    (tmp_path / "log").rmdir()
    (tmp_path / "log").write_text("a file now")
    with pytest.raises(FeedbackLostError):
        log.write(Dismissed(action="dismissed", **WHO), NOON)


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Lets no file grow beyond so many bytes: the kernel then writes a part, and next time none."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("left", [0, 1, 20, 100])
def test_a_full_disk_leaves_no_half_line(
    tmp_path: Path, full_disk: Callable[[int], None], left: int
) -> None:
    log = FeedbackLog(tmp_path)
    path = tmp_path / "events-2026-05-01.ndjson"
    log.write(Dismissed(action="dismissed", **WHO), NOON)
    first = path.read_bytes()
    full_disk(len(first) + left)
    for _ in range(2):
        with pytest.raises(FeedbackLostError):
            log.write(Dismissed(action="dismissed", **WHO), NOON)
    assert path.read_bytes() == first
    full_disk(resource.RLIM_INFINITY)
    log.write(Dismissed(action="dismissed", **WHO), NOON)
    assert path.read_bytes() == first * 2


def test_half_a_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    """Of a process that was killed while it wrote."""
    path = tmp_path / "events-2026-05-01.ndjson"
    path.write_bytes(b'{"application": "nextqu')
    FeedbackLog(tmp_path).write(Dismissed(action="dismissed", **WHO), NOON)
    half, whole = path.read_bytes().splitlines()
    assert half == b'{"application": "nextqu'
    assert json.loads(whole)["client_id"] == "browser-1"


def test_a_day_has_a_quota(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path, megabytes=1)
    path = tmp_path / "events-2026-05-01.ndjson"
    path.write_bytes(b" " * 999_990 + b"\n")
    with pytest.raises(FeedbackLostError, match="`feedback_mb`"):
        log.write(Dismissed(action="dismissed", **WHO), NOON)
    assert path.stat().st_size == 999_991
    log.write(Dismissed(action="dismissed", **WHO), NOON + timedelta(days=1))
    assert len(read(tmp_path / "events-2026-05-02.ndjson")) == 1


def test_the_key_is_recorded(tmp_path: Path) -> None:
    FeedbackLog(tmp_path).write(Dismissed(action="dismissed", **WHO), NOON, owner="shop")
    [event] = read(tmp_path / "events-2026-05-01.ndjson")
    assert event["owner"] == "shop"
