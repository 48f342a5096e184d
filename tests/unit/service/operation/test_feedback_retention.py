"""Lines and files that go, while others are being written."""

import threading
from datetime import UTC, date, datetime
from pathlib import Path

from nextquery.feedback.events import DismissedList, file_name
from nextquery.service.operation.feedback_log import FeedbackLog
from nextquery.service.operation.feedback_retention import expire, forget_visitor

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _event(visitor: str, number: int = 0) -> DismissedList:
    return DismissedList(f"list-{number}", visitor, NOON, "red shoes")


def _lines(folder: Path) -> list[str]:
    return [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


def test_a_visitor_s_lines_go_and_nobody_else_s(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path)
    for visitor in ("ann", "bob", "ann", "ann-2"):
        log.append(_event(visitor))
    (tmp_path / "notes.txt").write_text('{"client_id": "ann"}\n')
    before = len(_lines(tmp_path))
    removed = log.forget("ann")
    assert removed == 2
    assert len(_lines(tmp_path)) == before - 2
    assert '"ann"' in (tmp_path / "notes.txt").read_text()
    assert forget_visitor(tmp_path, "ann") == 0
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.glob("*.ndjson")}
    assert modes == {0o600}
    assert forget_visitor(tmp_path / "none", "ann") == 0


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
        FeedbackLog(tmp_path).forget("ann")
    for writer in writers:
        writer.join()
    log.forget("ann")
    lines = _lines(tmp_path)
    assert not [line for line in lines if '"ann"' in line]
    assert len([line for line in lines if '"bob"' in line]) == 400
    assert not list(tmp_path.glob(".*"))


def test_files_of_old_days_go(tmp_path: Path) -> None:
    names = [file_name("events", datetime(2026, 5, day, tzinfo=UTC)) for day in (1, 2, 3)]
    for name in (*names, "notes-2026-05-01.txt"):
        (tmp_path / name).write_text("")
    assert expire(tmp_path, 2, date(2026, 5, 3)) == names[:1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*names[1:], "notes-2026-05-01.txt"]
    assert expire(tmp_path, 1, date(2026, 5, 3)) == names[1:2]
