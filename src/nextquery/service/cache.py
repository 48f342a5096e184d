"""A bounded table that removes the least recently used entry."""

from collections import OrderedDict
from collections.abc import Hashable, ItemsView
from typing import Generic, TypeVar

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
