"""Sessions that the service keeps: the queries of each, until 30 minutes pass without one.

A store holds queries only, never a model's state: a session therefore survives a change of model,
a restart (in Redis) and a move to another machine. `LruCache` bounds what is kept in memory.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, ItemsView, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from nextquery.errors import MissingDependencyError
from nextquery.service.settings import (
    MAX_CONTEXT_QUERIES,
    MAX_SESSION_BYTES,
    ServiceSettings,
    text_bytes,
)

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """At most `size` entries; reading or writing one makes it the most recent. Not thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Key, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> ItemsView[Key, Value]:
        """Keys and values, least recently used first."""
        return self._entries.items()

    def get(self, key: Key) -> Value | None:
        """The value, now the most recent one."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def peek(self, key: Key) -> Value | None:
        """The value without making it recent."""
        return self._entries.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Store a value and forget the oldest beyond the size."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def drop(self, key: Key) -> bool:
        """Forget a key; says whether it was there."""
        return self._entries.pop(key, None) is not None

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()


class SessionsUnavailableError(Exception):
    """The store does not answer; a request continues with the context that it brought."""


@dataclass(frozen=True)
class StoredSession:
    """A session as a request found it."""

    queries: tuple[str, ...] = ()
    """Oldest first; empty if the session is unknown."""
    deletions: int = 0
    """How often it had been deleted: a request that began before a deletion stores nothing."""


class SessionStore(Protocol):
    """Where sessions live."""

    async def append(
        self, session: str, query: str, seed: Sequence[str] = (), deletions: int = 0
    ) -> bool:
        """Add a query; `seed` is the session's beginning if it is new.

        False, and nothing is stored, if the session was deleted since it was read: `deletions` is
        what `read` gave.
        """
        ...

    async def read(self, session: str) -> StoredSession:
        """The queries of a session."""
        ...

    async def delete(self, session: str) -> None:
        """Forget a session."""
        ...

    def count(self) -> int:
        """How many sessions this process holds itself."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def session_key(owner: str, session_id: str) -> str:
    """The name under which a session is stored: one per owner, and not the identifier itself."""
    return hashlib.sha256(f"{owner}\0{session_id}".encode()).hexdigest()[:32]


def open_sessions(settings: ServiceSettings) -> SessionStore:
    """The store that the settings ask for."""
    idle = settings.idle_minutes * 60
    if settings.sessions == "none":
        return NoSessions()
    if settings.sessions == "memory":
        return MemorySessions(settings.max_sessions, idle)
    return RedisSessions(settings.sessions, idle)


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


class NoSessions:
    """Stores nothing: every request brings its own context."""

    async def append(
        self, session: str, query: str, seed: Sequence[str] = (), deletions: int = 0
    ) -> bool:
        """Store nothing."""
        return True

    async def read(self, session: str) -> StoredSession:
        """No queries."""
        return StoredSession()

    async def delete(self, session: str) -> None:
        """Nothing to forget."""

    def count(self) -> int:
        """None."""
        return 0

    async def close(self) -> None:
        """Nothing to close."""


class MemorySessions:
    """Sessions in this process, ordered by their last query: the oldest expire and go first."""

    def __init__(
        self, size: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions: LruCache[str, tuple[float, tuple[str, ...]]] = LruCache(size)
        self._deletions: LruCache[str, int] = LruCache(size)
        self._idle = idle_seconds
        self._clock = clock

    async def append(
        self, session: str, query: str, seed: Sequence[str] = (), deletions: int = 0
    ) -> bool:
        """Add a query, unless the session was deleted since it was read."""
        stored = await self.read(session)
        if stored.deletions != deletions:
            return False
        queries = tuple(joined([*(stored.queries or seed), query]))
        self._sessions.put(session, (self._clock(), queries))
        return True

    async def read(self, session: str) -> StoredSession:
        """The queries of a session."""
        self._expire()
        # Reading makes a session no younger: what orders them is their last query.
        stored = self._sessions.peek(session)
        return StoredSession(stored[1] if stored else (), self._deletions.peek(session) or 0)

    async def delete(self, session: str) -> None:
        """Forget a session."""
        self._sessions.drop(session)
        self._deletions.put(session, (self._deletions.peek(session) or 0) + 1)

    def count(self) -> int:
        """How many sessions this process holds itself."""
        self._expire()
        return len(self._sessions)

    async def close(self) -> None:
        """Nothing to close."""

    def _expire(self) -> None:
        """Drop idle sessions from the old end; each is dropped once, so the cost is constant."""
        oldest_allowed = self._clock() - self._idle
        stale = []
        for session, (last_query, _) in self._sessions.items():
            if last_query > oldest_allowed:
                break
            stale.append(session)
        for session in stale:
            self._sessions.drop(session)


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
redis.call("DEL", KEYS[1])
redis.call("INCR", KEYS[2])
redis.call("PEXPIRE", KEYS[2], ARGV[1])
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

    def __init__(self, url: str) -> None:
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
        super().__init__(url)
        self._idle_ms = int(idle_seconds * 1000)
        self._read = self._client.register_script(_READ)
        self._append = self._client.register_script(_APPEND)
        self._delete = self._client.register_script(_DELETE)

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

    async def delete(self, session: str) -> None:
        """Forget a session."""
        await self._ask(self._delete(keys=self._names(session), args=[self.DELETION_MS]))

    def count(self) -> int:
        """None: Redis holds them."""
        return 0

    @staticmethod
    def _names(session: str) -> list[str]:
        """The list of queries, and how often it was deleted."""
        return [f"nextquery:session:{session}", f"nextquery:session:{session}:deletions"]
