"""Sessions that the service keeps: the queries of each, until 30 minutes pass without one.

A store holds queries only, never a model's state: a session therefore survives a change of model,
a restart (in Redis) and a move to another machine. `RecentEntries` bounds what is kept in memory.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from nextquery.errors import MissingDependencyError
from nextquery.service.settings import (
    MAX_CONTEXT_QUERIES,
    MAX_SESSION_BYTES,
    ServiceSettings,
    text_bytes,
)

Key = TypeVar("Key")
Value = TypeVar("Value")


class RecentEntries(OrderedDict[Key, Value]):
    """At most `size` entries: the one that was written longest ago goes first. Not thread-safe."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self._size:
            self.popitem(last=False)

    def expire(self, stale: Callable[[Value], bool]) -> None:
        """Drop entries from the old end while they are `stale`: each is dropped once."""
        while self and stale(next(iter(self.values()))):
            self.popitem(last=False)


class SessionsUnavailableError(Exception):
    """The store does not answer; a request continues with the context that it brought."""


@dataclass(frozen=True)
class StoredSession:
    """A session as a request found it."""

    queries: tuple[str, ...] = ()
    """Oldest first; empty if the session is unknown."""
    deletions: int = 0
    """How often it had been deleted: a request that began before a deletion stores nothing."""


def session_key(owner: str, session_id: str) -> str:
    """The name under which a session is stored: one per owner, and not the identifier itself."""
    return hashlib.sha256(f"{owner}\0{session_id}".encode()).hexdigest()[:32]


def joined(queries: Sequence[str]) -> list[str]:
    """The most recent queries, consecutive equal ones taken as one, as in a prepared log.

    Older ones are dropped where they would make a session longer than `MAX_SESSION_BYTES`.
    """
    distinct = [
        query for index, query in enumerate(queries) if index == 0 or query != queries[index - 1]
    ]
    kept: list[str] = []
    size = 0
    for query in reversed(distinct[-MAX_CONTEXT_QUERIES:]):
        size += text_bytes(query)
        if kept and size > MAX_SESSION_BYTES:
            break
        kept.append(query)
    return kept[::-1]


class MemorySessions:
    """Sessions in this process, ordered by their last query: the oldest expire and go first.

    Of size 0 it stores nothing: every request brings its own context.
    """

    def __init__(
        self, size: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions: RecentEntries[str, tuple[float, tuple[str, ...]]] = RecentEntries(size)
        self._deletions: RecentEntries[str, int] = RecentEntries(size)
        self._idle = idle_seconds
        self._clock = clock

    async def append(
        self, session: str, query: str, seed: Sequence[str] = (), deletions: int = 0
    ) -> bool:
        """Add a query; `seed` is the session's beginning if it is new.

        False, and nothing is stored, if the session was deleted since it was read: `deletions` is
        what `read` gave.
        """
        stored = await self.read(session)
        if stored.deletions != deletions:
            return False
        queries = tuple(joined([*(stored.queries or seed), query]))
        self._sessions[session] = self._clock(), queries
        return True

    async def read(self, session: str) -> StoredSession:
        """The queries of a session; to read it does not make it younger."""
        self._expire()
        _, queries = self._sessions.get(session, (0.0, ()))
        return StoredSession(queries, self._deletions.get(session, 0))

    async def delete(self, session: str) -> None:
        """Forget a session."""
        self._sessions.pop(session, None)
        self._deletions[session] = self._deletions.get(session, 0) + 1

    def count(self) -> int:
        """How many sessions this process holds itself."""
        self._expire()
        return len(self._sessions)

    async def close(self) -> None:
        """Nothing to close."""

    def _expire(self) -> None:
        oldest = self._clock() - self._idle
        self._sessions.expire(lambda entry: entry[0] <= oldest)


_READ = """
return {redis.call("GET", KEYS[2]) or "0", redis.call("LRANGE", KEYS[1], 0, -1)}
"""
_APPEND = """
local session, deleted = KEYS[1], KEYS[2]
local idle, most, deletions, query = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if (redis.call("GET", deleted) or "0") ~= deletions then
  return 0
end
if redis.call("EXISTS", session) == 0 and #ARGV > 4 then
  redis.call("RPUSH", session, unpack(ARGV, 5))
end
if redis.call("LINDEX", session, -1) ~= query then
  redis.call("RPUSH", session, query)
end
redis.call("LTRIM", session, -most, -1)
redis.call("PEXPIRE", session, idle)
return 1
"""
_DELETE = """
redis.call("DEL", unpack(KEYS, 1, #KEYS - 1))
redis.call("INCR", KEYS[#KEYS])
redis.call("PEXPIRE", KEYS[#KEYS], ARGV[1])
"""
"""Each script is one step: whatever another client does at the same time, there is no session
without an expiry, and none that comes back after its deletion."""


class RedisStore:
    """A connection to Redis, shared by workers and machines.

    When Redis does not answer, the store says so at once for a second before it tries again, so
    that no request waits for a dead server twice.
    """

    TIMEOUT = 0.25
    PAUSE = 1.0
    DELETION_MS = 600_000
    """How long a deletion is remembered: longer than any request takes."""

    def __init__(self, url: str, read: str, append: str) -> None:
        try:
            import redis.asyncio
        except ModuleNotFoundError:
            raise MissingDependencyError(
                "sessions in Redis need the extra: pip install 'nextquery[redis]'"
            ) from None
        self._errors: tuple[type[Exception], ...] = (redis.exceptions.RedisError, OSError)
        self._client: Any = redis.asyncio.Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=self.TIMEOUT,
            socket_connect_timeout=self.TIMEOUT,
            retry=None,
        )
        self._closed_until = 0.0
        self._read = self._client.register_script(read)
        self._append = self._client.register_script(append)
        self._delete = self._client.register_script(_DELETE)

    def _names(self, key: str) -> list[str]:
        """The keys in Redis of a session or user; the last one counts how often it was deleted."""
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        """Forget a session or user."""
        await self._ask(self._delete(keys=self._names(key), args=[self.DELETION_MS]))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, answer: Awaitable[Any]) -> Any:
        if time.monotonic() < self._closed_until:
            cast("Any", answer).close()
            raise SessionsUnavailableError
        try:
            return await answer
        except self._errors as error:
            self._closed_until = time.monotonic() + self.PAUSE
            raise SessionsUnavailableError from error


class RedisSessions(RedisStore):
    """Sessions in Redis: one list per session, expiring when idle."""

    def __init__(self, url: str, idle_seconds: float) -> None:
        super().__init__(url, _READ, _APPEND)
        self._idle_ms = int(idle_seconds * 1000)

    async def append(
        self, session: str, query: str, seed: Sequence[str] = (), deletions: int = 0
    ) -> bool:
        """Add a query, unless the session was deleted since it was read."""
        arguments: list[str | int] = [self._idle_ms, MAX_CONTEXT_QUERIES, deletions, query, *seed]
        return bool(await self._ask(self._append(keys=self._names(session), args=arguments)))

    async def read(self, session: str) -> StoredSession:
        """The queries of a session."""
        deletions, queries = await self._ask(self._read(keys=self._names(session)))
        return StoredSession(tuple(joined(queries)), int(deletions))

    def count(self) -> int:
        """None: Redis holds them."""
        return 0

    def _names(self, key: str) -> list[str]:
        return [f"nextquery:session:{key}", f"nextquery:session:{key}:deletions"]


SessionStore = MemorySessions | RedisSessions


def open_sessions(settings: ServiceSettings) -> SessionStore:
    """The store that the settings ask for."""
    idle = settings.idle_minutes * 60
    if settings.sessions in ("memory", "none"):
        return MemorySessions(settings.max_sessions if settings.sessions == "memory" else 0, idle)
    return RedisSessions(settings.sessions, idle)
