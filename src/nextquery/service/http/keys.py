"""API keys: who may ask, and how often.

A key is 32 random bytes, so its SHA-256 is as hard to invert as the key is to guess; files and the
environment hold hashes only. Knows nothing of HTTP.
"""

import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import InputError
from nextquery.plain_files import read_plain_text
from nextquery.service.lru_cache import LruCache
from nextquery.service.operation import logging

KEYS_VARIABLE = "NEXTQUERY_KEYS"
ADMIN_KEYS_VARIABLE = "NEXTQUERY_ADMIN_KEYS"
_LINE = re.compile(r"([A-Za-z0-9._-]{1,64}):([0-9a-f]{64})")
_CLIENTS_REMEMBERED = 100_000


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
            logging.log_warning("everybody may write to the key file", file=str(file))
        names.update(_parse(lines, str(file)))
        if not names:
            raise InputError(f"{file}: has no key; make one with `new_key=NAME`")
    if variable in os.environ:
        given = _parse(os.environ[variable].split(","), variable)
        if not given:
            # To serve everybody because a secret came out empty would be the worst of answers.
            raise InputError(f"{variable}: is set but has no key; unset it or write NAME:SHA256")
        names.update(given)
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
    """A token bucket per client: `rate` a second, and as many at once as come in two seconds."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = max(1.0, 2 * rate)
        self._clock = clock
        self._buckets: LruCache[str, tuple[float, float]] = LruCache(_CLIENTS_REMEMBERED)

    def wait(self, client: str, cost: float = 1.0, paid: float = 0.0) -> float:
        """Take `cost` from the client's bucket: 0, or the seconds until it would do.

        `paid` of it was taken before.
        """
        if not self._rate:
            return 0.0
        now = self._clock()
        tokens, since = self._buckets.get(client) or (self._burst, now)
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        # A batch larger than the bucket passes when the bucket is full, and leaves a debt.
        needed = min(cost, self._burst) - paid
        if tokens < needed:
            self._buckets.put(client, (tokens, now))
            return (needed - tokens) / self._rate
        self._buckets.put(client, (tokens - (cost - paid), now))
        return 0.0
