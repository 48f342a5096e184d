from hypothesis import given
from hypothesis import strategies as st

from nextquery.service.cache import LruCache


def test_the_least_recently_used_goes_first() -> None:
    table: LruCache[str, int] = LruCache(2)
    table.put("a", 1)
    table.put("b", 2)
    assert table.get("a") == 1
    table.put("c", 3)
    assert [key for key, _ in table.items()] == ["a", "c"]
    assert table.get("b") is None


def test_size_0_keeps_nothing() -> None:
    table: LruCache[str, int] = LruCache(0)
    table.put("a", 1)
    assert table.get("a") is None


@given(st.lists(st.tuples(st.sampled_from("gpd"), st.integers(0, 6))), st.integers(1, 4))
def test_behaves_like_a_list_ordered_by_use(steps: list[tuple[str, int]], size: int) -> None:
    table: LruCache[int, int] = LruCache(size)
    expected: list[int] = []
    for step, key in steps:
        if step == "p":
            table.put(key, key)
            expected = [*(k for k in expected if k != key), key][-size:]
        elif step == "g":
            assert (table.get(key) is not None) == (key in expected)
            if key in expected:
                expected = [*(k for k in expected if k != key), key]
        else:
            assert table.drop(key) == (key in expected)
            expected = [k for k in expected if k != key]
    assert [key for key, _ in table.items()] == expected
