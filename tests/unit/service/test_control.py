"""Kill switch and reloads as files that all workers see."""

import asyncio
import contextlib
import shutil
from pathlib import Path

import pytest

from nextquery.service import control as control_files
from nextquery.service import monitoring
from nextquery.service.control import Control


def looks(control: Control, count: int) -> int:
    """How many reloads `count` looks at the files ask for."""
    reloads: list[None] = []
    seen = 0

    async def scenario() -> None:
        def on_check() -> None:
            nonlocal seen
            seen += 1
            if seen == count:
                raise asyncio.CancelledError

        try:
            await control.watch(lambda: reloads.append(None), on_check)
        except asyncio.CancelledError:
            return

    asyncio.run(scenario())
    return len(reloads)


def test_the_kill_switch_is_a_file_that_all_workers_see(tmp_path: Path) -> None:
    one, other = Control(tmp_path, None), Control(tmp_path, None)
    one.switch(on=True)
    looks(other, 1)
    assert one.killed
    assert other.killed
    one.switch(on=False)
    looks(other, 1)
    assert not other.killed


def test_a_service_started_with_the_file_in_place_is_killed(tmp_path: Path) -> None:
    switch = tmp_path / "off"
    switch.touch()
    assert Control(tmp_path / "control", switch).killed


def test_a_reload_is_asked_once_of_every_other_worker(tmp_path: Path) -> None:
    one, other = Control(tmp_path, None), Control(tmp_path, None)
    one.announce_reload()
    assert looks(one, 2) == 0
    assert looks(other, 2) == 1


def test_a_signal_asks_all_of_them(tmp_path: Path) -> None:
    worker = Control(tmp_path, None)
    worker.ask_reload()
    assert looks(worker, 1) == 1


def test_a_folder_that_is_cleaned_away_changes_nothing_that_was_decided(tmp_path: Path) -> None:
    folder = tmp_path / "control"
    one, other = Control(folder, None), Control(folder, None)
    one.switch(on=True)
    looks(other, 1)
    shutil.rmtree(folder)
    assert looks(one, 1) == looks(other, 1) == 0, "nobody asked for a reload"
    assert one.killed
    assert other.killed
    assert Control(folder, None).killed, "a worker started later sees it, too"
    shutil.rmtree(folder)
    one.switch(on=False)
    looks(other, 1)
    assert not other.killed
    shutil.rmtree(folder)
    one.ask_reload()
    assert looks(other, 1) == 1


def test_the_operators_file_alone_decides_where_there_is_one(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    control = Control(tmp_path / "control", volume / "off")
    control.switch(on=True)
    assert (volume / "off").exists()
    shutil.rmtree(volume)
    looks(control, 1)
    assert control.killed, "a volume that is away does not say that all is well"
    volume.mkdir()
    looks(control, 1)
    assert not control.killed


def test_on_acts_here_and_stays_though_no_file_can_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "control"
    control = Control(folder, None)
    control.switch(on=False)
    shutil.rmtree(folder)
    folder.write_text("a file now")
    with pytest.raises(OSError, match="control"):
        control.switch(on=True)
    looks(control, 2)
    assert control.killed
    folder.unlink()
    looks(control, 1)
    assert Control(folder, None).killed, "the others are told as soon as that is possible"


def test_on_acts_though_the_files_say_off_and_cannot_be_replaced(tmp_path: Path) -> None:
    control = Control(tmp_path, None)
    (tmp_path / "kill-switch").mkdir()
    with pytest.raises(IsADirectoryError):
        control.switch(on=True)
    looks(control, 2)
    assert control.killed
    (tmp_path / "kill-switch").rmdir()
    looks(control, 1)
    other = Control(tmp_path, None)
    assert other.killed
    other.switch(on=False)
    looks(control, 1)
    assert not control.killed


def test_an_operators_file_that_cannot_be_written_is_replaced_by_the_own_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "volume").write_text("a file, not a folder")
    switch = tmp_path / "volume" / "off"
    one, other = (Control(tmp_path / "control", switch) for _ in range(2))
    one.switch(on=True)
    looks(one, 2)
    looks(other, 2)
    assert one.killed
    assert other.killed
    (tmp_path / "volume").unlink()
    other.switch(on=False)
    looks(one, 1)
    assert not one.killed


def test_off_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    switch = tmp_path / "off"
    switch.mkdir()  # what cannot be removed as a file
    control = Control(tmp_path / "control", switch)
    with pytest.raises(OSError, match="off"):
        control.switch(on=False)
    looks(control, 1)
    assert control.killed


def test_a_reload_that_cannot_be_written_happens_here(tmp_path: Path) -> None:
    control = Control(tmp_path, None)
    (tmp_path / "reload").mkdir()
    assert not control.ask_reload()
    assert looks(control, 3) == 1
    assert not control.announce_reload()


def test_an_error_while_looking_is_logged_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_files, "CONTROL_POLL_INTERVAL", 0.001)
    monkeypatch.setattr(monitoring.LOGGER, "propagate", True)
    control, seen = Control(tmp_path, None), 0

    def fail() -> None:
        nonlocal seen
        seen += 1
        if seen == 5:
            raise asyncio.CancelledError
        raise ValueError("not expected")

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(control.watch(lambda: None, fail))
    assert seen == 5
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]
