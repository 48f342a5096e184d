"""Changes that act while the service runs: kill switch, blocklist, reload by another worker.

All are files, looked at four times a second: a change made by hand, by a mounted volume or by an
admin route of any worker reaches every worker of the machine. Knows nothing of HTTP or models.
"""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

from nextquery.artifacts import write_text

SECONDS_BETWEEN_LOOKS = 0.25


class Control:
    """The control files of one service."""

    def __init__(self, folder: Path, kill_switch: Path | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._kill_switch = kill_switch or folder / "kill-switch"
        self._reload = folder / "reload"
        self._seen_reload = self._reload_token()
        self.killed = self._kill_switch.exists()

    def switch(self, on: bool) -> None:
        """Turn the kill switch on or off for every worker."""
        if on:
            self._kill_switch.touch()
        else:
            self._kill_switch.unlink(missing_ok=True)
        self.killed = on

    def ask_reload(self) -> None:
        """Ask every worker to load its models again."""
        write_text(self._reload, uuid.uuid4().hex)

    def announce_reload(self) -> None:
        """Ask every worker but this one, which has done it."""
        self.ask_reload()
        self._seen_reload = self._reload_token()

    async def watch(self, on_reload: Callable[[], None], on_look: Callable[[], None]) -> None:
        """Look at the files for ever; `on_look` is called every time."""
        while True:
            self.killed = self._kill_switch.exists()
            token = self._reload_token()
            if token != self._seen_reload:
                self._seen_reload = token
                on_reload()
            on_look()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    def _reload_token(self) -> str:
        try:
            return self._reload.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
