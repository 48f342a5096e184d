import asyncio

import pytest

from nextquery.errors import InputError
from nextquery.service.sessions.stores import MemorySessions, joined, open_sessions, session_key
from nextquery.service.settings import MAX_CONTEXT_QUERIES, ServiceSettings


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> MemorySessions:
    return MemorySessions(3, 1800.0, clock)


def test_queries_are_added_in_order(sessions: MemorySessions) -> None:
    async def scenario() -> None:
        assert await sessions.append("s", "a", []) == ["a"]
        assert await sessions.append("s", "b", []) == ["a", "b"]
        assert await sessions.read("s") == ["a", "b"]
        await sessions.delete("s")
        assert await sessions.read("s") == []

    asyncio.run(scenario())


def test_the_seed_begins_a_new_session_only(sessions: MemorySessions) -> None:
    async def scenario() -> None:
        assert await sessions.append("s", "b", ["a"]) == ["a", "b"]
        assert await sessions.append("s", "c", ["other"]) == ["a", "b", "c"]

    asyncio.run(scenario())


def test_a_retried_query_counts_once(sessions: MemorySessions) -> None:
    async def scenario() -> None:
        await sessions.append("s", "a", [])
        assert await sessions.append("s", "a", []) == ["a"]

    asyncio.run(scenario())


def test_idle_sessions_end(sessions: MemorySessions, clock: Clock) -> None:
    async def scenario() -> None:
        await sessions.append("old", "a", [])
        clock.now = 1700.0
        await sessions.append("young", "b", [])
        clock.now = 1800.0
        assert await sessions.read("old") == []
        assert await sessions.read("young") == ["b"]
        assert sessions.count() == 1

    asyncio.run(scenario())


def test_the_number_of_sessions_is_bounded(sessions: MemorySessions) -> None:
    async def scenario() -> None:
        for name in "abcd":
            await sessions.append(name, "q", [])
        assert sessions.count() == 3
        assert await sessions.read("a") == []

    asyncio.run(scenario())


def test_a_long_session_keeps_its_most_recent_queries() -> None:
    queries = [str(number) for number in range(MAX_CONTEXT_QUERIES + 5)]
    assert joined(queries) == queries[5:]


def test_owners_do_not_share_sessions() -> None:
    assert session_key("shop", "1") != session_key("news", "1")
    assert "1234567" not in session_key("", "1234567")


def test_an_unknown_store_is_refused(settings: ServiceSettings) -> None:
    from dataclasses import replace

    with pytest.raises(InputError, match="`sessions` mysql"):
        open_sessions(replace(settings, sessions="mysql://x"))
