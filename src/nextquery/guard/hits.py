"""The optional hits check: show only suggestions that would find something.

A site gives a function, or a file of known queries or titles. Knows words; knows no search engine.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from nextquery.errors import InputError
from nextquery.normalise import normalise_query
from nextquery.plain_files import read_plain_text

HitsCheck = Callable[[str], bool]


class TitleHits:
    """A query has hits when one title holds all of its words."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._titles_of: dict[str, set[int]] = defaultdict(set)
        for number, title in enumerate(titles):
            for word in normalise_query(title).split():
                self._titles_of[word].add(number)

    def __call__(self, query: str) -> bool:
        """Whether a title holds every word of `query`."""
        found = sorted((self._titles_of.get(w, set()) for w in query.split()), key=len)
        return bool(found) and bool(found[0].intersection(*found[1:]))


def read_hits(path: Path) -> TitleHits:
    """Read a file of known queries or titles, one a line."""
    try:
        lines = read_plain_text(path, "utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from None
    if not any(normalise_query(line) for line in lines):
        raise InputError(f"{path}: names no query or title, so nothing would ever be suggested")
    return TitleHits(lines)
