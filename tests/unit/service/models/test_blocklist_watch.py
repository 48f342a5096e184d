import time
from pathlib import Path

from nextquery.guard.guard import Guard
from nextquery.service.models.blocklist_watch import (
    SECONDS_BETWEEN_LOOKS,
    BlocklistState,
    BlocklistWatch,
)


def test_a_changed_file_is_taken_and_a_bad_one_leaves_the_old(tmp_path: Path) -> None:
    path = tmp_path / "blocked.txt"
    path.write_text("one\n")
    guard = Guard(blocklist=path)
    watch = BlocklistWatch(guard, path)
    watch.look()
    assert watch.state == BlocklistState(0)
    path.write_text("one\ntwo\n")
    watch.look()
    assert watch.state == BlocklistState(1)
    assert not guard.allows("two")
    path.write_text("")
    watch.look()
    assert watch.state.generation == 1
    assert "has no entry" in str(watch.state.problem)
    assert not guard.allows("two")
    path.write_text("two\nthree\n")
    watch.look()
    assert watch.state == BlocklistState(2)


def test_a_bad_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "blocked.txt"
    path.write_text("one\n")
    guard = CountingGuard(blocklist=path)
    watch = BlocklistWatch(guard, path)
    path.write_text("# nothing\n")
    for _ in range(5):
        watch.look()
    assert guard.reloads == 2, "when it was opened, and when it changed"


class CountingGuard(Guard):
    reloads = 0

    def reload(self) -> bool:
        self.reloads += 1
        return super().reload()


def test_it_looks_several_times_a_second() -> None:
    assert SECONDS_BETWEEN_LOOKS < 0.5


def test_it_looks_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "blocked.txt"
    path.write_text("one\n")
    watch = BlocklistWatch(Guard(blocklist=path), path)
    watch.start()
    path.write_text("one\ntwo\n")
    end = time.monotonic() + 120
    while watch.state.generation == 0:
        assert time.monotonic() < end
        time.sleep(0.01)
    watch.stop()
