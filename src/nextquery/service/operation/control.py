"""Changes that act while the service runs: kill switch, reload by another worker.

All are files, looked at four times a second: a change made by hand, by a mounted volume or by an
admin route of any worker reaches every worker of the machine. The folder may be cleaned away (it is
a temporary one by default): what was last decided stays decided and is written again. Knows nothing
of HTTP or models.
"""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

from nextquery.artifacts import write_text
from nextquery.plain_files import read_plain_text
from nextquery.service.operation import logging

SECONDS_BETWEEN_LOOKS = 0.25
ON, OFF = "on", "off"


class Control:
    """The control files of one service."""

    def __init__(self, folder: Path, kill_switch: Path | None) -> None:
        self._kill_switch = kill_switch
        self._switch = folder / "kill-switch"
        self._reload = folder / "reload"
        folder.mkdir(parents=True, exist_ok=True)
        self._seen_reload = _read(self._reload)
        self.killed = False
        """Whether every list is to be empty."""
        self._look_at_switch()

    def switch(self, on: bool) -> None:
        """Turn the kill switch on or off for every worker."""
        if self._kill_switch is None:
            _write(self._switch, ON if on else OFF)
        elif on:
            self._kill_switch.parent.mkdir(parents=True, exist_ok=True)
            self._kill_switch.touch()
        else:
            self._kill_switch.unlink(missing_ok=True)
        self.killed = on

    def ask_reload(self) -> None:
        """Ask every worker to load its models again."""
        _write(self._reload, uuid.uuid4().hex)

    def announce_reload(self) -> None:
        """Ask every worker but this one, which has done it."""
        self.ask_reload()
        self._seen_reload = _read(self._reload)

    async def watch(self, on_reload: Callable[[], None], on_look: Callable[[], None]) -> None:
        """Look at the files for ever; `on_look` is called every time."""
        while True:
            try:
                self._look_at_switch()
            except OSError as error:
                logging.log_failure("the control files cannot be read or written", error)
            token = _read(self._reload)
            if token is not None and token != self._seen_reload:
                self._seen_reload = token
                on_reload()
            on_look()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    def _look_at_switch(self) -> None:
        """The operator's file says on by being there; the own one says what was decided last."""
        if self._kill_switch is not None:
            if self._kill_switch.parent.is_dir():
                self.killed = self._kill_switch.exists()
            return
        decided = _read(self._switch)
        if decided is not None:
            self.killed = decided == ON
        elif self.killed:
            _write(self._switch, ON)


def _read(path: Path) -> str | None:
    """What a file says; None if it is not there."""
    try:
        return read_plain_text(path)
    except (OSError, UnicodeDecodeError):
        return None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
