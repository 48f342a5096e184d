"""The texts of a made-up log, joined from pieces that repeat: phrases, addresses, days, hours.

A text is a few places in a table of pieces. Arrow copies the pieces of many texts one behind the
other in one go; where each text ends is all that has to be added.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from nextquery.logs.synthetic.lexicon import INTENTS, Lexicon
from nextquery.logs.synthetic.walks import Role

Places = npt.NDArray[np.int64]


class Pieces:
    """A table of pieces, to which more can be added."""

    def __init__(self) -> None:
        self._parts: list[pa.LargeStringArray] = []
        self._count = 0

    def add(self, texts: Iterable[str] | pa.LargeStringArray) -> int:
        """Add texts, and say at which place the first of them stands."""
        part = texts if isinstance(texts, pa.LargeStringArray) else as_strings(list(texts))
        self._parts.append(part)
        self._count += len(part)
        return self._count - len(part)

    def copy(self) -> "Pieces":
        """A table of its own with the same pieces."""
        other = Pieces()
        other._parts, other._count = list(self._parts), self._count
        return other

    def joined(self, columns: Sequence[Places]) -> pa.LargeStringArray:
        """Row by row, the pieces at the places that the columns say, without anything between."""
        places = np.stack(columns, axis=1)
        taken = pa.concat_arrays(self._parts).take(pl.Series(places.reshape(-1)).to_arrow())
        _, ends, letters = taken.buffers()
        every = np.frombuffer(ends, dtype=np.int64, count=places.size + 1)
        starts = np.ascontiguousarray(every[:: len(columns)])
        return pa.LargeStringArray.from_buffers(len(places), pa.py_buffer(starts), letters)


@dataclass(frozen=True)
class QueryPieces:
    """The pieces of queries and of the addresses that their clicks go to, and where they stand."""

    pieces: Pieces
    first: int
    later: int
    """Phrases with a blank before them; an empty one has none."""
    address: int
    """Of an entity: on its own, then with each intent of its domain."""
    own_address: int
    """Of a phrase that is an address of its own."""

    def places(self, drawn: pl.DataFrame) -> tuple["Pieces", list[Places], Places]:
        """The pieces, the three places of every query's text, and that of its address."""
        pieces = self.pieces.copy()
        names = ("first", "second", "third")
        first, second, third = (drawn[name].to_numpy().astype(np.int64) for name in names)
        entity, intent, role = (drawn[name].to_numpy() for name in ("entity", "intent", "role"))
        by_text = (role == Role.NAVIGATION) | (role == Role.FAMILY)
        which = np.where(intent < 0, 0, intent % INTENTS + 1)
        address = self.address + entity.astype(np.int64) * (INTENTS + 1) + which
        address = np.where(by_text, self.own_address + first, address)
        texts = [self.first + first, self.later + second, self.later + third]
        number = drawn["slip_number"].to_numpy()
        slipped = np.flatnonzero(number >= 0)
        if len(slipped):
            right = pieces.joined([column[slipped] for column in texts]).to_pylist()
            wrong = [slip(*each) for each in zip(right, number[slipped].tolist(), strict=True)]
            extra = np.arange(len(slipped))
            texts[0][slipped] = pieces.add(wrong) + extra
            texts[1][slipped] = texts[2][slipped] = self.later
            own = by_text[slipped]
            address[slipped[own]] = pieces.add(map(_address, wrong)) + extra[own]
        return pieces, texts, address


def query_pieces(lexicon: Lexicon) -> QueryPieces:
    """The pieces of the queries of a lexicon.

    `.example` is reserved: no such address belongs to anybody.
    """
    pieces, phrases = Pieces(), lexicon.phrases
    start = lexicon.starts["entities"]
    names = phrases[start : start + len(lexicon.domains) * lexicon.entities]
    return QueryPieces(
        pieces,
        first=pieces.add(phrases),
        later=pieces.add(f" {phrase}" if phrase else "" for phrase in phrases),
        address=pieces.add(
            _address(text)
            for number, name in enumerate(names)
            for text in (name, *(f"{name}-{intent}" for intent in _intents(lexicon, number)))
        ),
        own_address=pieces.add(map(_address, phrases)),
    )


def _intents(lexicon: Lexicon, entity: int) -> tuple[str, ...]:
    first = entity // lexicon.entities * INTENTS
    return lexicon.intents[first : first + INTENTS]


def _address(text: str) -> str:
    return f"{text.replace(' ', '-')}.example"


def as_strings(texts: pl.Series | list[str]) -> pa.LargeStringArray:
    """Texts as Arrow has them."""
    # By way of Polars: Arrow would import pandas to see whether this is one of its columns.
    return pl.Series(texts, dtype=pl.String).to_arrow(compat_level=pl.CompatLevel.oldest())


def slip(text: str, number: int) -> str:
    """Swap, drop or double a letter inside a word.

    >>> slip("paris hotels", 7), slip("paris hotels", 3), slip("paris hotels", 2)
    ('pars hotels', 'pairs hotels', 'paaris hotels')
    """
    inner = _inner(text)
    if not inner:
        return text + text[-1]
    place = inner[(number // 3) % len(inner)]
    pair = text[place : place + 2]
    return text[:place] + (pair[::-1], pair[1], pair[0] + pair)[number % 3] + text[place + 2 :]


@lru_cache(maxsize=1 << 16)
def _inner(text: str) -> tuple[int, ...]:
    """Where a slip can be: between two letters of a word, and not between equal ones."""
    return tuple(
        place
        for place in range(1, len(text) - 2)
        if text[place - 1 : place + 2].isalpha() and text[place] != text[place + 1]
    )
