"""Sessions in memory and in Redis."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.service.sessions import (
    MemorySessions,
    RecentEntries,
    RedisSessions,
    SessionStore,
    StoredSession,
    joined,
    open_sessions,
    session_key,
)
from nextquery.service.settings import MAX_CONTEXT_QUERIES, ServiceSettings

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "redis"])
async def sessions(request: pytest.FixtureRequest) -> AsyncIterator[SessionStore]:
    store: SessionStore = MemorySessions(3, 1800.0)
    if request.param == "redis":
        store = RedisSessions(request.getfixturevalue("redis_server").url, 1800.0)
    yield store
    await store.close()


async def add(sessions: SessionStore, name: str, query: str, *seed: str) -> list[str]:
    """The session after a query was added, by a request that began just before."""
    stored = await sessions.read(name)
    assert await sessions.append(name, query, seed, stored.deletions)
    return list((await sessions.read(name)).queries)


async def queries(sessions: SessionStore, name: str) -> list[str]:
    return list((await sessions.read(name)).queries)


async def test_a_seed_begins_a_session_and_a_retried_query_counts_once(
    sessions: SessionStore,
) -> None:
    assert await add(sessions, "s", "b", "a") == ["a", "b"]
    assert await add(sessions, "s", "b", "other") == ["a", "b"]
    assert await add(sessions, "s", "c", "other") == ["a", "b", "c"]


async def test_a_deleted_session_does_not_come_back(sessions: SessionStore) -> None:
    await add(sessions, "s", "a")
    began = await sessions.read("s")
    for _ in range(2):
        await sessions.delete("s")
        assert not await sessions.append("s", "b", ["a"], began.deletions)
        assert await queries(sessions, "s") == []
    assert await sessions.append("other", "b", ["a"], 0)
    assert await add(sessions, "s", "c") == ["c"], "a request that begins now starts it again"


async def test_a_long_session_keeps_its_most_recent_queries(sessions: SessionStore) -> None:
    texts = [str(number) for number in range(MAX_CONTEXT_QUERIES + 5)]
    assert joined(texts) == texts[5:]
    for text in texts:
        await add(sessions, "s", text)
    assert await queries(sessions, "s") == texts[5:]


async def test_without_a_store_nothing_is_kept(settings: ServiceSettings) -> None:
    sessions = open_sessions(replace(settings, sessions="none"))
    assert await sessions.append("s", "a")
    assert await sessions.read("s") == StoredSession()
    await sessions.delete("s")
    assert await sessions.read("s") == StoredSession()
    assert sessions.count() == 0
    await sessions.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["append", "read", "delete"]), st.sampled_from("abcde")),
        st.tuples(st.just("wait"), st.integers(1, 900)),
    ),
    max_size=40,
)


@given(STEPS)
async def test_a_session_lives_until_it_is_idle_or_three_others_were_used_later(
    steps: list[tuple[str, Any]],
) -> None:
    clock = SimpleNamespace(now=0.0)
    sessions = MemorySessions(3, 1800.0, lambda: clock.now)
    expected: dict[str, tuple[float, list[str]]] = {}  # in the order of their last query
    for number, (step, argument) in enumerate(steps):
        expected = {k: v for k, v in expected.items() if clock.now - v[0] < 1800.0}
        known = expected.get(argument, (0.0, []))[1]
        if step == "append":
            expected.pop(argument, None)
            expected[argument] = clock.now, [*known, str(number)]
            expected = dict(list(expected.items())[-3:])
            assert await add(sessions, argument, str(number)) == expected[argument][1]
        elif step == "read":
            assert await queries(sessions, argument) == known
        elif step == "delete":
            await sessions.delete(argument)
            expected.pop(argument, None)
        else:
            clock.now += argument
    live = {k for k, v in expected.items() if clock.now - v[0] < 1800.0}
    assert sessions.count() == len(live)


async def test_a_session_deleted_while_it_begins_leaves_nothing_without_expiry(
    redis_server: Any,
) -> None:
    one, other = (RedisSessions(redis_server.url, 1800.0) for _ in range(2))
    for number in range(200):
        name = f"s{number}"
        await asyncio.gather(one.append(name, "b", ["a"]), other.delete(name))
    names = await one._client.keys("*")
    assert all([await one._client.pttl(name) > 0 for name in names])
    await one.close()
    await other.close()


def test_owners_do_not_share_sessions() -> None:
    assert session_key("shop", "1") != session_key("news", "1")
    assert "1234567" not in session_key("", "1234567")


@given(st.lists(st.tuples(st.sampled_from("gpd"), st.integers(0, 6))), st.integers(1, 4))
def test_behaves_like_a_list_ordered_by_writing(steps: list[tuple[str, int]], size: int) -> None:
    table: RecentEntries[int, int] = RecentEntries(size)
    expected: list[int] = []
    for step, key in steps:
        if step == "p":
            table[key] = key
            expected = [*(k for k in expected if k != key), key][-size:]
        elif step == "g":
            assert (table.get(key) is not None) == (key in expected)
        else:
            assert (table.pop(key, None) is not None) == (key in expected)
            expected = [k for k in expected if k != key]
    assert list(table) == expected
