"""Changes while the service runs: kill switch, reload, blocklist entries."""

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path

from nextquery.artifacts import write_text
from nextquery.artifacts.files import append_line, locked, read_plain_text, replaced_file
from nextquery.errors import InputError
from nextquery.guard.blocklist import (
    MOST_BYTES,
    Blocklist,
    canonical_entry,
    entry_of,
    read_entries,
    read_lines,
)
from nextquery.service import monitoring

LOCK_SECONDS = 10.0
"""How long to wait for whoever else holds the lock of the file."""


def block_text(blocklist: Path, text: str) -> str:
    """Append a word, a phrase or a whole query (`="search"`) to a blocklist file.

    Returns the entry as it was written. Nothing else in the file changes; an entry that is already
    there is not added again. The file is locked meanwhile, so that the changes of all threads and
    workers follow one another. Raises `InputError` for a text without letters or digits,
    `BlocklistError` for a file that models would refuse, `OSError` for one that cannot be written.
    """
    entry = _entry(text)
    with locked(blocklist, os.O_RDWR | os.O_APPEND, LOCK_SECONDS) as descriptor:
        if entry in read_entries(blocklist):
            return entry
        full = f"would be larger than {MOST_BYTES >> 20:,} MB"
        append_line(descriptor, f"{entry}\n".encode(), MOST_BYTES, full, flush=True)
    return entry


def unblock_text(blocklist: Path, text: str) -> str:
    """Remove every line of a blocklist file whose entry is `text`, and return that entry.

    All other lines stay as they are. Raises `EntryMissingError` if there is none, `InputError` for
    the only entry of a file, since a file without entries is refused by every model, and otherwise
    what `block_text` raises.
    """
    entry = _entry(text)
    with locked(blocklist, os.O_RDWR | os.O_APPEND, LOCK_SECONDS) as descriptor:
        lines = read_lines(blocklist)
        remaining = [line for line in lines if canonical_entry(entry_of(line)) != entry]
        if len(remaining) == len(lines):
            raise EntryMissingError(f"text: no entry of the blocklist is {entry}")
        if not any(map(entry_of, remaining)):
            raise InputError("text: is the only entry, and a blocklist may not be empty")
        with replaced_file(blocklist, mode=os.fstat(descriptor).st_mode & 0o777) as stream:
            stream.write("".join(f"{line}\n" for line in remaining).encode())
    return entry


class EntryMissingError(InputError):
    """An entry that is to be removed is not in the blocklist."""


def _entry(text: str) -> str:
    entry = canonical_entry(text)
    if not Blocklist([entry]):
        raise InputError("text: has no letter or digit that could be blocked")
    return entry


CONTROL_POLL_INTERVAL = 0.25
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
        self._untold = False
        """Whether the switch was turned on here and the files do not say so yet."""
        self._own_on = False
        """Whether the control folder says on because the operator's file could not be written."""
        self._reload_wanted = False
        self._problem: str | None = None
        """What was wrong at the last check; the same is logged once."""
        self._check_switch()

    def switch(self, on: bool) -> None:
        """Turn the kill switch on or off for every worker.

        On always acts in this process. Raises `OSError` if the other workers could not be told
        (it is tried again at every check), or if off could not be written: nothing then changes.
        """
        if on:
            self.killed = self._untold = True
            self._write_on()
        else:
            if self._kill_switch is None or _read(self._switch) == ON:
                _write(self._switch, OFF)
            if self._kill_switch is not None:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self._kill_switch.unlink()
            self.killed = self._untold = False

    def ask_reload(self) -> bool:
        """Ask every worker to load its models again; returns whether the others could be told."""
        self._reload_wanted = True
        return self._write_reload()

    def announce_reload(self) -> bool:
        """Ask every worker but this one, which has done it; returns whether they could be told."""
        announced = self._write_reload()
        self._seen_reload = _read(self._reload)
        return announced

    async def watch(self, on_reload: Callable[[], None], on_check: Callable[[], None]) -> None:
        """Check the files forever; `on_check` is called every time."""
        while True:
            self._check_once(on_reload, on_check)
            await asyncio.sleep(CONTROL_POLL_INTERVAL)

    def _check_once(self, on_reload: Callable[[], None], on_check: Callable[[], None]) -> None:
        """Check once. No error ends the watch: the kill switch would not be noticed any more."""
        problem: Exception | None = None
        try:
            self._check_switch()
        except OSError as error:
            problem = error
        try:
            token = _read(self._reload)
            if self._reload_wanted or (token is not None and token != self._seen_reload):
                self._reload_wanted, self._seen_reload = False, token
                on_reload()
            on_check()
        except Exception as error:
            problem = error
        if problem is not None and str(problem) != self._problem:
            monitoring.log_failure("the control files cannot be looked at", problem)
        self._problem = str(problem) if problem is not None else None

    def _check_switch(self) -> None:
        """On if the operator's file exists; the service's own file has the last decision."""
        if self._untold:
            self._write_on()
            return
        decided = _read(self._switch)
        if self._kill_switch is None:
            if decided is not None:
                self.killed = decided == ON
            elif self.killed:
                _write(self._switch, ON)
            return
        was_on, self._own_on = self._own_on, decided == ON
        if self._own_on:
            self.killed = True
        elif self._kill_switch.parent.is_dir():
            self.killed = self._kill_switch.exists()
        elif was_on:  # another worker turned it off
            self.killed = False

    def _write_on(self) -> None:
        """Write that the switch is on: to the operator's file, or else to the control folder."""
        if self._kill_switch is not None:
            try:
                self._kill_switch.parent.mkdir(parents=True, exist_ok=True)
                self._kill_switch.touch()
            except OSError as error:
                _write(self._switch, ON)
                monitoring.log_failure("the kill-switch file cannot be written", error)
        else:
            _write(self._switch, ON)
        self._untold = False

    def _write_reload(self) -> bool:
        try:
            _write(self._reload, uuid.uuid4().hex)
        except OSError as error:
            monitoring.log_failure("the workers cannot be told to reload", error)
            return False
        return True


def _read(path: Path) -> str | None:
    """What a file says; None if it is not there."""
    try:
        return read_plain_text(path)
    except (OSError, UnicodeDecodeError):
        return None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
