"""API keys: who may ask, and how often.

A key is 32 random bytes, so its SHA-256 is as hard to invert as the key is to guess; files and the
environment hold hashes only.
"""

import hashlib
import math
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nextquery.artifacts.files import read_plain_text
from nextquery.errors import InputError
from nextquery.service import monitoring
from nextquery.service.sessions import RecentEntries

KEYS_VARIABLE = "NEXTQUERY_KEYS"
ADMIN_KEYS_VARIABLE = "NEXTQUERY_ADMIN_KEYS"
_LINE = re.compile(r"([A-Za-z0-9._-]{1,64}):([0-9a-f]{64})")
_CLIENTS_REMEMBERED = 50_000
"""About 20 MB: keys, addresses and visitors, the least recent forgotten first."""
VISITOR_SHARE = 0.5
"""What one visitor of a key gets of the key's rate at most."""


@dataclass(frozen=True)
class NewKey:
    """A key to hand to a client, and the line that goes into the key file."""

    key: str
    line: str


def new_key(name: str) -> NewKey:
    """A fresh key for `name`."""
    key = secrets.token_urlsafe(32)
    line = f"{name}:{_digest(key)}"
    if not _LINE.fullmatch(line):
        raise InputError(f"`new_key` {name}: use letters, digits, '.', '_' and '-' only")
    return NewKey(key, line)


class KeyRing:
    """The keys that open a group of routes, by hash."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)

    def __len__(self) -> int:
        return len(self._names)

    def name(self, key: str) -> str | None:
        """The name of the key's owner, None if the key is not known."""
        return self._names.get(_digest(key))


def read_keys(file: Path | None, variable: str) -> KeyRing:
    """The keys of a file (`name:sha256` a line, `#` starts a comment) and of the environment."""
    names: dict[str, str] = {}
    if file is not None:
        try:
            lines = read_plain_text(file).splitlines()
            writable = file.stat().st_mode & stat.S_IWOTH
        except OSError as error:
            raise InputError(f"{file}: the key file cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise InputError(f"{file}: the key file is not UTF-8 text") from None
        if writable:
            monitoring.log_warning("everybody may write to the key file", file=str(file))
        names.update(_parse(lines, str(file)))
        if not names:
            raise InputError(f"{file}: has no key; make one with `new_key=NAME`")
    if variable in os.environ:
        parsed = _parse(os.environ[variable].split(","), variable)
        if not parsed:
            # To serve everybody because a secret came out empty would be the worst of answers.
            raise InputError(f"{variable}: is set but has no key; unset it or write NAME:SHA256")
        names.update(parsed)
    return KeyRing(names)


def _parse(lines: Iterable[str], origin: str) -> dict[str, str]:
    names = {}
    for number, line in enumerate(lines, 1):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise InputError(f"{origin}, entry {number}: write NAME:SHA256-OF-THE-KEY")
        names[match[2]] = match[1]
    return names


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


class RateLimit:
    """Token buckets: `rate` a second for a client, and for each of its visitors a share of it.

    A bucket holds what comes in two seconds and may be in debt by one second at most, so that no
    request blocks the others of its key for longer.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: RecentEntries[str, tuple[float, float]] = RecentEntries(_CLIENTS_REMEMBERED)

    def most(self, visitor: str = "") -> float:
        """The highest cost of one request: a full bucket and the debt of one second."""
        if not self._rate:
            return math.inf
        rate = self._rate * VISITOR_SHARE if visitor else self._rate
        return _burst(rate) + rate

    def wait(
        self,
        client: str,
        cost: float = 1.0,
        paid: float = 0.0,
        visitor: str = "",
        visitor_paid: float = 0.0,
    ) -> float:
        """Take `cost` from a client's bucket and its visitor's: 0, or the seconds to wait for it.

        `paid` and `visitor_paid` of it were taken before. A cost above `most` is taken as `most`. A
        request that has to wait takes nothing.
        """
        if not self._rate:
            return 0.0
        now = self._clock()
        buckets = [(client, self._rate, min(cost, self.most()), paid)]
        if visitor:
            charged = min(cost, self.most(visitor))
            name = f"{client}\0{visitor}"
            buckets.append((name, self._rate * VISITOR_SHARE, charged, visitor_paid))
        seconds = 0.0
        left: dict[str, tuple[float, float]] = {}
        for name, rate, charged, before in buckets:
            burst = _burst(rate)
            tokens, since = self._buckets.get(name, (burst, now))
            tokens = min(burst, tokens + (now - since) * rate)
            missing = min(charged, burst) - before - tokens
            seconds = max(seconds, missing / rate)
            left[name] = tokens, charged - before
        for name, (tokens, due) in left.items():
            self._buckets[name] = (tokens if seconds else tokens - due, now)
        return seconds


def _burst(rate: float) -> float:
    return max(1.0, 2 * rate)
