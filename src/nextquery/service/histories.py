"""What returning visitors searched for before: the group `again`, and the store of signed-in users.

A history comes with the request (`history`: the visitor's browser keeps it) or is kept here under
the site's own `user_id`, if the operator sets `user_days`. Neither reaches a log, a metric, a
feedback file, a cache or a model.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nextquery.guard.guard import read_hits
from nextquery.records import Suggestion
from nextquery.service import monitoring
from nextquery.service.engine import BlocklistWatch
from nextquery.service.schemas import BusyError, OfVisitor, ProblemError, read_history
from nextquery.service.sessions import (
    RecentEntries,
    RedisStore,
    SessionsUnavailableError,
    session_key,
)
from nextquery.service.settings import ServiceSettings
from nextquery.suggesters.returning import MAX_HISTORY, PastQuery, Returning, merge_history

DAY = 86_400.0
REPEAT_SECONDS = 1800.0
"""The same query again within this time is one search: the next page, or a reload."""


@dataclass(frozen=True)
class History:
    """What a visitor typed before this request."""

    queries: tuple[PastQuery, ...] = ()
    """Newest first, without repeats."""
    deletions: int = 0
    """How often the stored history had been deleted when it was read."""


class MemoryHistories:
    """Histories in this process; those whose last search is oldest expire and go first."""

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._users: RecentEntries[str, tuple[PastQuery, ...]] = RecentEntries(size)
        self._deletions: RecentEntries[str, int] = RecentEntries(size)
        self._seconds = seconds
        self._clock = clock

    async def read(self, user: str) -> History:
        """The history of a user; empty if there is none."""
        oldest = self._clock() - self._seconds
        self._users.expire(lambda queries: queries[0].time <= oldest)
        recent = tuple(query for query in self._users.get(user, ()) if query.time > oldest)
        return History(recent, self._deletions.get(user, 0))

    async def append(self, user: str, query: str, deletions: int) -> None:
        """Add a search, unless the history was deleted since it was read."""
        history, now = await self.read(user), self._clock()
        if history.deletions != deletions:
            return
        newest = history.queries[0] if history.queries else None
        repeats = newest and newest.text == query and now - newest.time <= REPEAT_SECONDS
        search = PastQuery(query, now, 0 if repeats else 1)
        self._users[user] = merge_history((search, *history.queries))

    async def delete(self, user: str) -> None:
        """Forget a user."""
        self._users.pop(user, None)
        self._deletions[user] = self._deletions.get(user, 0) + 1

    async def close(self) -> None:
        """Nothing to close."""


_READ = """
local oldest = ARGV[1]
for _, text in ipairs(redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", oldest)) do
  redis.call("ZREM", KEYS[1], text)
  redis.call("HDEL", KEYS[2], text)
end
return {redis.call("GET", KEYS[3]) or "0",
        redis.call("ZREVRANGE", KEYS[1], 0, -1, "WITHSCORES"), redis.call("HGETALL", KEYS[2])}
"""
_APPEND = """
local query, now, most, keep_ms, deletions, repeats = unpack(ARGV)
if (redis.call("GET", KEYS[3]) or "0") ~= deletions then
  return 0
end
local newest = redis.call("ZREVRANGE", KEYS[1], 0, 0, "WITHSCORES")
if newest[1] ~= query or tonumber(now) - tonumber(newest[2]) > tonumber(repeats) then
  redis.call("HINCRBY", KEYS[2], query, 1)
end
redis.call("ZADD", KEYS[1], now, query)
for _, text in ipairs(redis.call("ZRANGE", KEYS[1], 0, -1 - most)) do
  redis.call("ZREM", KEYS[1], text)
  redis.call("HDEL", KEYS[2], text)
end
redis.call("PEXPIRE", KEYS[1], keep_ms)
redis.call("PEXPIRE", KEYS[2], keep_ms)
return 1
"""


class RedisHistories(RedisStore):
    """Histories in Redis: per user a sorted set of queries by time and a hash of their counts."""

    def __init__(self, url: str, seconds: float, clock: Callable[[], float] = time.time) -> None:
        super().__init__(url, _READ, _APPEND)
        self._seconds = seconds
        self._clock = clock

    async def read(self, user: str) -> History:
        """The history of a user; empty if there is none."""
        oldest = self._clock() - self._seconds
        deletions, scored, counted = await self._ask(
            self._read(keys=self._names(user), args=[oldest])
        )
        counts = dict(zip(counted[::2], map(int, counted[1::2]), strict=True))
        searches = zip(scored[::2], map(float, scored[1::2]), strict=True)
        queries = [PastQuery(text, moment, counts.get(text, 1)) for text, moment in searches]
        return History(tuple(queries), int(deletions))

    async def append(self, user: str, query: str, deletions: int) -> None:
        """Add a search, unless the history was deleted since it was read."""
        keep_ms = int(self._seconds * 1000)
        arguments: list[Any] = [
            query, repr(self._clock()), MAX_HISTORY, keep_ms, deletions, REPEAT_SECONDS
        ]  # fmt: skip
        await self._ask(self._append(keys=self._names(user), args=arguments))

    def _names(self, key: str) -> list[str]:
        return [f"nextquery:user:{key}:{part}" for part in ("times", "counts", "deletions")]


HistoryStore = MemoryHistories | RedisHistories


def open_histories(settings: ServiceSettings) -> HistoryStore | None:
    """The store next to the sessions; None if no histories are kept."""
    if settings.user_days is None:
        return None
    if settings.sessions == "memory":
        return MemoryHistories(settings.max_sessions, settings.user_days * DAY)
    return RedisHistories(settings.sessions, settings.user_days * DAY)


class ReturningVisitors:
    """Finds the history of a request, and what of it the visitor may search for again."""

    def __init__(self, settings: ServiceSettings, store: HistoryStore | None) -> None:
        self._settings = settings
        self._store = store
        self._model: Returning | None = None
        self._watch: BlocklistWatch | None = None

    def open_model(self) -> Returning | None:
        """The model that the settings name, or that the default model's folder includes."""
        folder = self._settings.returning
        if folder is None:
            included = self._settings.models[0].path / Returning.kind
            folder = included if included.is_dir() else None
        if folder is None:
            return None
        hits = read_hits(self._settings.hits) if self._settings.hits else None
        return Returning.load(folder, self._settings.blocklist, hits)

    def use(self, model: Returning | None) -> None:
        """Answer with `model` from now on."""
        if self._watch is not None:
            self._watch.stop()
        self._model = model
        if model is None and self._store is not None:
            monitoring.log_warning(
                "no searches are kept: `user_days` needs a model of returning visitors; set "
                "`returning`, or serve a blend that includes one"
            )
        if model is not None and self._settings.blocklist is not None:
            self._watch = BlocklistWatch(model.guard, self._settings.blocklist)
            self._watch.start()

    async def history(self, owner: str, body: OfVisitor) -> History | None:
        """What the visitor typed before; None if the request does not say who or what."""
        if body.history is not None and body.user_id is not None:
            raise ProblemError(409, "history: send it or `user_id`, not both.")
        if body.history is not None:
            return History(read_history(body.history)) if self._model is not None else None
        if body.user_id is None:
            return None
        store = self.store()
        if self._model is None:
            return None
        try:
            return await store.read(session_key(owner, body.user_id))
        except SessionsUnavailableError:
            return None

    async def remember(
        self, owner: str, body: OfVisitor, query: str, history: History | None
    ) -> None:
        """Add a search to the history of a signed-in user."""
        if body.user_id is None or history is None or not query.strip():
            return
        try:
            await self.store().append(session_key(owner, body.user_id), query, history.deletions)
        except SessionsUnavailableError:
            return

    def again(
        self, context: Sequence[str], history: History, shown: Sequence[Suggestion]
    ) -> list[Suggestion]:
        """The likeliest earlier queries that the list does not show already."""
        if self._model is None:
            return []
        listed = {suggestion.text for suggestion in shown}
        most, least = self._settings.again, self._settings.again_threshold
        suggestions = self._model.again(
            context, history.queries, time.time(), most + len(listed), least
        )
        return [suggestion for suggestion in suggestions if suggestion.text not in listed][:most]

    def completions(self, prefix: str | None, history: History) -> list[Suggestion]:
        """The most recent earlier queries that begin with what `read_prefix` gave."""
        if self._model is None or not prefix:
            return []
        if not prefix[-1].isalnum():  # its last word is whole
            prefix = f"{prefix[:-1].rstrip()} "
        return self._model.complete(prefix, history.queries, self._settings.again)

    def store(self) -> HistoryStore:
        """The store of signed-in users; a request that needs it is refused if there is none."""
        if self._store is None:
            raise ProblemError(409, "Histories of users are not kept here: `user_days` is not set.")
        return self._store

    async def export(self, owner: str, user_id: str) -> History:
        """All that is kept of a user."""
        try:
            return await self.store().read(session_key(owner, user_id))
        except SessionsUnavailableError:
            raise BusyError("The store of histories does not answer.", 2) from None

    async def forget(self, owner: str, user_id: str) -> None:
        """Delete all that is kept of a user."""
        try:
            await self.store().delete(session_key(owner, user_id))
        except SessionsUnavailableError:
            raise BusyError("The store of histories does not answer.", 2) from None

    async def close(self) -> None:
        """Close connections and stop checking the blocklist."""
        if self._watch is not None:
            self._watch.stop()
        if self._store is not None:
            await self._store.close()
