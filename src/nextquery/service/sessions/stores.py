"""Sessions that the service keeps: the queries of each, until 30 minutes pass without one.

A store holds queries only, never a model's state: a session therefore survives a change of model,
a restart (in Redis) and a move to another machine. Knows nothing of models or HTTP.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

from nextquery.errors import InputError, MissingDependencyError
from nextquery.service.lru_cache import LruCache
from nextquery.service.settings import MAX_CONTEXT_QUERIES, ServiceSettings


class SessionsUnavailableError(Exception):
    """The store does not answer; a request goes on with what it brought itself."""


class SessionStore(Protocol):
    """Where sessions live."""

    async def append(self, session: str, query: str, seed: Sequence[str]) -> list[str]:
        """Add a query and give the whole session; `seed` is its beginning if it is new."""
        ...

    async def read(self, session: str) -> list[str]:
        """The queries of a session, oldest first; empty if it is unknown."""
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
    if settings.sessions == "memory":
        return MemorySessions(settings.max_sessions, idle)
    if settings.sessions.startswith(("redis://", "rediss://", "unix://")):
        return RedisSessions(settings.sessions, idle)
    raise InputError(f"`sessions` {settings.sessions}: write 'memory' or redis://HOST:PORT/DB")


def joined(queries: Sequence[str]) -> list[str]:
    """The most recent queries, consecutive equal ones taken as one, as in a prepared log."""
    kept = [
        query for index, query in enumerate(queries) if index == 0 or query != queries[index - 1]
    ]
    return kept[-MAX_CONTEXT_QUERIES:]


class MemorySessions:
    """Sessions in this process, ordered by their last query: the oldest expire and go first."""

    def __init__(
        self, size: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions: LruCache[str, tuple[float, list[str]]] = LruCache(size)
        self._idle = idle_seconds
        self._clock = clock

    async def append(self, session: str, query: str, seed: Sequence[str]) -> list[str]:
        """Add a query and give the whole session; `seed` is its beginning if it is new."""
        known = await self.read(session) or list(seed)
        queries = joined([*known, query])
        self._sessions.put(session, (self._clock(), queries))
        return list(queries)

    async def read(self, session: str) -> list[str]:
        """The queries of a session, oldest first; empty if it is unknown."""
        self._expire()
        # Reading makes a session no younger: what orders them is their last query.
        found = self._sessions.peek(session)
        return list(found[1]) if found else []

    async def delete(self, session: str) -> None:
        """Forget a session."""
        self._sessions.drop(session)

    def count(self) -> int:
        """How many sessions this process holds itself."""
        self._expire()
        return len(self._sessions)

    async def close(self) -> None:
        """Nothing to let go of."""

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


_APPEND = """
local session, idle, most, query = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call("EXISTS", session) == 0 and #ARGV > 3 then
  redis.call("RPUSH", session, unpack(ARGV, 4))
end
if redis.call("LINDEX", session, -1) ~= query then
  redis.call("RPUSH", session, query)
end
redis.call("LTRIM", session, -most, -1)
redis.call("PEXPIRE", session, idle)
return redis.call("LRANGE", session, 0, -1)
"""
"""Begins or goes on with a session as one step: nothing comes between, so that whatever another
client does at the same time, there is no session without an expiry."""


class RedisSessions:
    """Sessions in Redis, shared by workers and machines: one list per session, expiring when idle.

    When Redis does not answer, the store says so at once for a second before it tries again, so
    that no request waits for a dead server twice.
    """

    TIMEOUT = 0.25
    PAUSE = 1.0

    def __init__(self, url: str, idle_seconds: float) -> None:
        try:
            import redis.asyncio
        except ModuleNotFoundError:
            raise MissingDependencyError(
                "sessions in Redis need the extra: pip install 'nextquery[redis]'"
            ) from None
        self._errors: tuple[type[Exception], ...] = (redis.exceptions.RedisError, OSError)
        self._idle_ms = int(idle_seconds * 1000)
        self._client: Any = redis.asyncio.Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=self.TIMEOUT,
            socket_connect_timeout=self.TIMEOUT,
            retry=None,
        )
        self._append = self._client.register_script(_APPEND)
        self._closed_until = 0.0

    async def append(self, session: str, query: str, seed: Sequence[str]) -> list[str]:
        """Add a query and give the whole session; `seed` is its beginning if it is new."""
        arguments: list[str | int] = [self._idle_ms, MAX_CONTEXT_QUERIES, query, *seed]
        return joined(await self._ask(self._append(keys=[self._name(session)], args=arguments)))

    async def read(self, session: str) -> list[str]:
        """The queries of a session, oldest first; empty if it is unknown."""
        return joined(await self._ask(self._client.lrange(self._name(session), 0, -1)))

    async def delete(self, session: str) -> None:
        """Forget a session."""
        await self._ask(self._client.delete(self._name(session)))

    def count(self) -> int:
        """None: Redis holds them."""
        return 0

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    @staticmethod
    def _name(session: str) -> str:
        return f"nextquery:session:{session}"

    async def _ask(self, answer: Awaitable[Any]) -> Any:
        if time.monotonic() < self._closed_until:
            cast("Any", answer).close()
            raise SessionsUnavailableError
        try:
            return await answer
        except self._errors as error:
            self._closed_until = time.monotonic() + self.PAUSE
            raise SessionsUnavailableError from error
