import asyncio
import shutil
from pathlib import Path

from nextquery.service.operation.control import Control


def looks(control: Control, count: int) -> int:
    """How many reloads `count` looks at the files ask for."""
    reloads: list[None] = []
    seen = 0

    async def scenario() -> None:
        def on_look() -> None:
            nonlocal seen
            seen += 1
            if seen == count:
                raise asyncio.CancelledError

        try:
            await control.watch(lambda: reloads.append(None), on_look)
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
