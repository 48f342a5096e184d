"""A beam search whose every step is one call of the compiled kernels (`native/kernels/search.h`).

What Python does between two steps is what only Python can: judging the texts that ended, and words
that a blocklist may refuse together with those before them. The memory of a search is used again.
"""

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.guard.guard import Reason
from nextquery.inference.kernels.library import Library, SearchRecord, address, aligned
from nextquery.inference.network.prediction import Ended, SearchStart
from nextquery.inference.settings import DecodeConfig

_STARTED, _ADVANCED = 0, 1


class Sizes(NamedTuple):
    """How large a search is."""

    contexts: int
    rows: int
    longest: int
    own: int
    """The most words that a context can copy."""


class ModelSizes(NamedTuple):
    """How large the states of a model are."""

    blocks: int
    word_size: int
    state_size: int


class Workspace:
    """The memory of a search: its record, and the arrays that it points to."""

    def __init__(self, sizes: Sizes, model: ModelSizes) -> None:
        self.sizes = sizes
        contexts, rows, longest, own = sizes
        self.words, *self._whole = _arrays(
            np.int64, rows * longest, rows * longest, rows, rows, rows, rows
        )
        self.contexts = self._whole[-1]
        self.totals, self.bounds = _arrays(np.float64, rows, contexts)
        self.hidden, _, self.previous, *self._floats = floats = _arrays(
            *(np.float32, rows * model.state_size, rows * model.state_size),
            *(rows * model.word_size, rows * model.blocks, rows * model.word_size),
            *(rows, rows * own, rows),
        )
        self.last = self._whole[1]
        self._addresses = [
            *map(address, (self.words, *self._whole, self.totals, self.bounds)),
            *map(address, floats[:3]),
        ]
        self._predicted = [address(self.contexts), *map(address, self._floats)]
        self.record = SearchRecord()
        self._make_room(3 * rows + 64)

    def fits(self, sizes: Sizes) -> bool:
        """Whether a search of these sizes has room here."""
        return all(have >= need for have, need in zip(self.sizes, sizes, strict=True))

    def begin(self, start: SearchStart, beam: int, longest: int) -> None:
        """Put the first prefixes of a search here."""
        live, prefixes = start.live, start.prefixes
        rows, length = live.words.shape
        stage = _STARTED if prefixes.previous is None else _ADVANCED
        state = (beam, longest, stage, rows, length, 0, 0)
        self.record = SearchRecord(*state, *self._addresses, rows, *self._predicted, **self._found)
        self.words[: rows * longest].reshape(rows, longest)[:, :length] = live.words
        self.totals[:rows], self.contexts[:rows] = live.totals, live.contexts
        if length:
            self.last[:rows] = live.words[:, -1]
        self.hidden[: prefixes.hidden.size] = prefixes.hidden.ravel()
        if prefixes.previous is not None:
            self.previous[: prefixes.previous.size] = prefixes.previous.ravel()

    def grow(self) -> None:
        """Four times the room for extensions; nothing else changes."""
        self._make_room(4 * self.record.room)
        for name, value in self._found.items():
            setattr(self.record, name, value)

    def _make_room(self, room: int) -> None:
        contexts, _, longest, _ = self.sizes
        self.first, self.found_rows, self.found_words, self.ended_contexts, self.ended_words = (
            _arrays(np.int64, contexts + 1, room, room, room, room * longest)
        )
        self.found_totals, self.ended_totals = _arrays(np.float64, room, room)
        self.doubtful, self.refused = _arrays(np.uint8, room, room)
        names = (
            *("first", "found_rows", "found_words", "ended_contexts", "ended_words"),
            *("found_totals", "ended_totals", "found_doubtful", "refused"),
        )
        arrays = (
            *(self.first, self.found_rows, self.found_words, self.ended_contexts),
            *(self.ended_words, self.found_totals, self.ended_totals, self.doubtful, self.refused),
        )
        places = zip(names, map(address, arrays), strict=True)
        self._found = {"room": room, **dict(places)}


def _arrays(kind: Any, *sizes: int) -> list[NDArray[Any]]:
    """Arrays one behind the other, each beginning at a cache line."""
    line = 64 // np.dtype(kind).itemsize
    starts = np.cumsum([0, *(size + -size % line for size in sizes)]).tolist()
    memory = aligned(starts[-1], kind)
    return [memory[start : start + size] for start, size in zip(starts, sizes, strict=False)]


class Workspaces:
    """The memory of searches that are over, for those to come. Several threads may take some."""

    def __init__(self, model: ModelSizes) -> None:
        self._model = model
        self._free: list[Workspace] = []

    def __len__(self) -> int:
        return len(self._free)

    def take(self, sizes: Sizes) -> Workspace:
        """Some that is large enough; what is found too small is made anew."""
        try:
            space = self._free.pop()
        except IndexError:
            return Workspace(sizes, self._model)
        if space.fits(sizes):
            return space
        larger = (max(have, need) for have, need in zip(space.sizes, sizes, strict=True))
        return Workspace(Sizes(*larger), self._model)

    def give_back(self, space: Workspace) -> None:
        """What a search no longer needs."""
        self._free.append(space)


class SearchKernel(NamedTuple):
    """What a search calls, and with what."""

    library: Library
    records: Sequence[Any]
    """Decoder, contexts, whether the mode is fast, rules."""
    kept: Sequence[Any]
    """What the records point to."""
    workspaces: Workspaces


class NativeSteps:
    """The steps of one search: the same as those of `ArraySteps`."""

    def __init__(self, kernel: SearchKernel, start: SearchStart, config: DecodeConfig) -> None:
        self._kernel, self._config = kernel, config
        self._rules, live, sources = start.rules, start.live, start.batch.sources
        contexts, longest = len(start.rules), max(config.max_words, live.length)
        own = 0 if sources is None else sources.own.most
        sizes = Sizes(contexts, max(contexts * config.beam, len(live)), longest, own)
        self._space: Workspace | None = kernel.workspaces.take(sizes)
        self._space.begin(start, config.beam, longest)

    def next(self, bounds: Sequence[float]) -> Iterable[Ended] | None:
        """What ends in the next step, None if no prefix is left.

        Prefixes that are no likelier than the bound of their context are given up before it.
        """
        kernel, space = self._kernel, self._space
        if space is None:
            return None
        space.bounds[: len(bounds)] = bounds
        rows = -1
        while rows < 0:
            rows = kernel.library.step(*kernel.records, ctypes.byref(space.record))
            if rows < 0:
                space.grow()
        if rows == 0:
            kernel.workspaces.give_back(space)
            self._space = None
            return None
        self._count(space.record)
        if space.record.doubtful:
            self._judge(space)
        return self._ended(space)

    def _ended(self, space: Workspace) -> Iterable[Ended]:
        number, length = space.record.ended, space.record.length
        if not number or length < self._config.min_words:
            return ()
        words = space.ended_words[: number * length].reshape(number, length)
        columns = space.ended_contexts[:number], words, space.ended_totals[:number]
        return map(Ended, *(column.tolist() for column in columns))

    def _count(self, record: Any) -> None:
        guard = self._rules[0].shared.guard
        if record.blocked:
            guard.count(Reason.BLOCKLIST, record.blocked)
        if record.rare:
            guard.count(Reason.RARE_PAIR, record.rare)

    def _judge(self, space: Workspace) -> None:
        """Ask the blocklist about words together with what stands before them."""
        record, contexts = space.record, len(self._rules)
        words = ctypes.c_int64 * record.length
        for place in np.flatnonzero(space.doubtful[: int(space.first[contexts])]).tolist():
            row = int(space.found_rows[place])
            before = words.from_address(record.words + 8 * row * record.longest)
            rules = self._rules[int(space.contexts[row])]
            space.refused[place] = rules.is_blocked((*before, int(space.found_words[place])))
        self._kernel.library.ended(ctypes.byref(record), contexts)
