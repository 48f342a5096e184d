"""The site's own titles, as completions and related suggestions after typed queries."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import log
from typing import Any

LOOKED_AT = 200
"""Titles that are looked at for one list."""


class SiteTitles:
    """Titles by their beginning and by their words; `titles` is a trie.

    >>> import marisa_trie
    >>> site = SiteTitles(marisa_trie.Trie(["red shoes", "red wine", "running shoes"]))
    >>> site.beginning_with("red")
    ['red wine', 'red shoes']
    >>> site.related_to("running in red shoes")
    ['running shoes', 'red shoes', 'red wine']
    """

    def __init__(self, titles: Any) -> None:
        self._titles = titles

    def __bool__(self) -> bool:
        return len(self._titles) > 0

    def beginning_with(self, prefix: str) -> list[str]:
        """Titles that begin with `prefix`, the shortest first."""
        titles: Iterable[str] = self._titles.iterkeys(prefix)
        return heapq.nsmallest(LOOKED_AT, titles, key=lambda title: (len(title), title))

    def related_to(self, query: str) -> list[str]:
        """Titles with words of the query, rare words counting more."""
        values: dict[int, float] = defaultdict(float)
        for word in dict.fromkeys(query.split()):
            titles = self._titles_of.get(word, ())
            for title in titles:
                values[title] += log(1 + len(self._titles) / len(titles))
        best = heapq.nsmallest(LOOKED_AT, values, key=lambda title: (-values[title], title))
        texts = [(-values[title], self._titles.restore_key(title)) for title in best]
        return [text for _, text in sorted(texts)]

    @cached_property
    def _titles_of(self) -> dict[str, Sequence[int]]:
        """The numbers of the titles of each word; words that every fifth title has are left out."""
        titles_of: dict[str, list[int]] = defaultdict(list)
        for title in self._titles.iterkeys():
            for word in set(title.split()):
                titles_of[word].append(self._titles[title])
        common = max(20, len(self._titles) // 5)
        return {word: titles for word, titles in titles_of.items() if len(titles) <= common}
