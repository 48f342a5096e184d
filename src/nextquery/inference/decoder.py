"""One step of the decoder for many prefixes of many contexts at once.

Knows HRED's decoder, copying included, and the output layer; knows nothing of which prefixes are
kept. A word is an id of the vocabulary or, from V on, a word of the context that the vocabulary
lacks (numbered anew for each context). Time and memory are linear in the words of the contexts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from nextquery.inference.contexts import ContextState
from nextquery.inference.kernels.output_layer import ALL, BestWords, OutputLayer, WordScores
from nextquery.inference.kernels.packed_decoder import PackedDecoder
from nextquery.inference.session_vocabulary import CopyTable, SessionVocabulary
from nextquery.model.copying import CopyMemory
from nextquery.model.hred import HRED
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN

LEAST_COPY = 1e-30
"""A pointer's share below this counts as this: its logarithm must stay finite."""


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Where the decoder stands: one row a prefix, rows of one context together."""

    hidden: Tensor
    """(rows, d_h): `d_{n-1}` of Eq. 8."""
    words: Tensor | None
    """(rows,): the last words; None before the first."""
    contexts: Tensor
    """(rows,): the context of each row, ascending."""

    def take(self, rows: Tensor) -> "Prefixes":
        """Some rows, in the given order."""
        words = None if self.words is None else self.words[rows]
        return Prefixes(self.hidden[rows], words, self.contexts[rows])


class Prediction:
    """The next word of every row: the softmax, mixed with the pointer where there is copying."""

    def __init__(self, softmax: WordScores, copies: "CopiedShare | None") -> None:
        self._softmax = softmax
        self._copies = copies

    def best(self, rows: slice, before: Tensor, count: int) -> BestWords:
        """Extensions among which are the `count` best of the prefixes in `rows`, in any order."""
        copies = self._copies
        if copies is None:
            return self._softmax.best(rows, before, count)
        found = self._softmax.best(rows, before + copies.log_softmax_share[rows], count)
        own = copies.words[rows]  # (some rows, own)
        fresh = copies.columns(found.rows + rows.start, found.words) < 0
        place, column = (own >= 0).nonzero(as_tuple=True)
        mixed = self._own_scores[rows] + before[:, None]
        return BestWords(
            torch.cat([found.rows[fresh], place]),
            torch.cat([found.words[fresh], own[place, column]]),
            torch.cat([found.totals[fresh], mixed[place, column]]),
            found.rest,
        )

    def of(self, words: Tensor, rows: slice = ALL) -> Tensor:
        """The log-probability of given words (rows, words), for some rows or for all."""
        if self._copies is None:
            return self._softmax.of(words, rows)
        return self._copies.mixed(words, self._softmax, rows)

    @cached_property
    def end(self) -> Tensor:
        """The log-probability of the end of the query (rows,)."""
        return self.of(torch.full((self._softmax.rows, 1), END_OF_QUERY)).squeeze(1)

    @cached_property
    def _own_scores(self) -> Tensor:
        """The log-probability of the words that can be copied (rows, own)."""
        copies = self._copies
        assert copies is not None
        generated = copies.generated(copies.words.clamp(min=0), self._softmax, ALL)
        return torch.logaddexp(generated, copies.log_pointer)


@dataclass(frozen=True, eq=False)
class CopiedShare:
    """The pointer's side of the mixture, row by row."""

    own: CopyTable
    contexts: Tensor
    """(rows,): the context of each row."""
    log_pointer: Tensor
    """(rows, own): log(g) + log of the attention on that word."""
    log_softmax_share: Tensor
    """(rows,): log(1 - g)."""
    vocabulary_size: int

    @cached_property
    def words(self) -> Tensor:
        """(rows, own): ids of the words that can be copied, each once, -1 for none."""
        return self.own.words[self.contexts]

    def columns(self, rows: Tensor, words: Tensor) -> Tensor:
        """The columns of `words` among the own words of their rows, -1 for none."""
        return self.own.columns(self.contexts[rows], words)

    def generated(self, words: Tensor, softmax: WordScores, rows: slice) -> Tensor:
        """The softmax's side of the mixture for given words (rows, words)."""
        inside = words < self.vocabulary_size
        share = self.log_softmax_share[rows, None]
        generated = softmax.of(words.where(inside, 0), rows) + share
        return generated.masked_fill(~inside, -torch.inf)

    def mixed(self, words: Tensor, softmax: WordScores, rows: slice) -> Tensor:
        """The mixture for given words (rows, words)."""
        columns = self.own.columns(self.contexts[rows, None], words)
        copied = self.log_pointer[rows].gather(1, columns.clamp(min=0))
        copied = copied.masked_fill(columns < 0, -torch.inf)
        return torch.logaddexp(self.generated(words, softmax, rows), copied)


class ContextBatch:
    """Contexts that are decoded together, and what can be copied from each."""

    def __init__(
        self, model: HRED, contexts: Sequence[ContextState], given: Sequence[str] = ()
    ) -> None:
        self.contexts = contexts
        self.own = [
            SessionVocabulary(model.vocabulary, context.copied_words, given) for context in contexts
        ]
        self.session_states = torch.stack([context.session_state for context in contexts])
        self.session_inputs = model.session_inputs(self.session_states)
        most = max(len(context.copied_words) for context in contexts)
        self.memory: CopyMemory | None = None
        if model.copying is None or most == 0:
            return
        size = (len(contexts), most)
        states = self.session_states.new_zeros((*size, model.config.query_size))
        self.ages = torch.zeros(size, dtype=torch.long)
        self.places = torch.zeros(size, dtype=torch.long)  # of each source among the own words
        width = len(model.vocabulary) + max(len(own.outside) for own in self.own)
        self.copy_table = CopyTable.of([own.distinct for own in self.own], width)
        for row, context in enumerate(contexts):
            self._fill(row, context, states)
        self.memory = model.copying.remember(states)

    def _fill(self, row: int, context: ContextState, states: Tensor) -> None:
        own, count = self.own[row], len(context.copied_words)
        if count == 0:
            return
        states[row, :count] = torch.cat(context.copied_states)
        place = {word: n for n, word in enumerate(own.distinct)}
        self.places[row, :count] = torch.tensor([place[own.id(w)] for w in context.copied_words])
        self.ages[row, :count] = len(context.queries) - torch.tensor(context.copied_from)


class Decoder:
    """Starts, predicts and advances prefixes."""

    def __init__(self, model: HRED, output: OutputLayer, recurrence: PackedDecoder) -> None:
        self.model = model
        self.output = output
        self._packed = recurrence

    def start(self, batch: ContextBatch) -> Prefixes:
        """The empty prefix of every context (Eq. 7)."""
        hidden = self.model.start_decoder(batch.session_states, batch.session_inputs)
        return Prefixes(hidden, None, torch.arange(len(batch.contexts)))

    def advance(self, batch: ContextBatch, prefixes: Prefixes, words: Tensor) -> Prefixes:
        """Every prefix with one more word (Eq. 8); own words are read as the unknown word."""
        read = words.where(words < len(self.model.vocabulary), UNKNOWN)
        session = batch.session_inputs.take(prefixes.contexts)
        hidden = self._packed.advance(prefixes.hidden, read, session)
        return Prefixes(hidden, read, prefixes.contexts)

    def predict(self, batch: ContextBatch, prefixes: Prefixes) -> Prediction:
        """What may come next (Eq. 9 and 10)."""
        words = prefixes.words
        previous = None if words is None else self._packed.previous_words(words)
        session = batch.session_inputs.take(prefixes.contexts)
        omega = self._packed.omega(prefixes.hidden, previous, session)
        if batch.memory is None:
            return Prediction(self.output.scores(omega), None)
        looked, copies = self._attend(batch, prefixes, previous)
        return Prediction(self.output.scores(omega + looked), copies)

    def _attend(
        self, batch: ContextBatch, prefixes: Prefixes, previous: Tensor | None
    ) -> tuple[Tensor, CopiedShare]:
        """What attention adds to omega (rows, d_e), and the pointer's side of the mixture."""
        model, memory = self.model, batch.memory
        assert model.copying is not None
        assert memory is not None
        if previous is None:
            size = (len(prefixes.hidden), model.config.embedding_size)
            previous = prefixes.hidden.new_zeros(size)
        present, contexts = torch.unique(prefixes.contexts, return_inverse=True)
        ages = batch.ages
        if len(present) < len(ages):  # a part of a large batch: look at its contexts only
            memory = CopyMemory(memory.states[present], memory.keys[present])
            ages = ages[present]
        places, grid = _grid(contexts, len(present))
        ages = ages[:, None, :].expand(-1, grid.shape[1], -1)
        looked = model.copying.attend(prefixes.hidden[grid], previous[grid], memory, ages)
        gate = looked.gate.flatten()[places]
        weights = looked.weights.flatten(0, 1)[places]  # (rows, sources)
        by_word = weights.new_zeros((len(weights), batch.copy_table.words.shape[1]))
        by_word.scatter_add_(1, batch.places[prefixes.contexts], weights)
        share = CopiedShare(
            own=batch.copy_table,
            contexts=prefixes.contexts,
            log_pointer=functional.logsigmoid(gate)[:, None] + by_word.clamp(min=LEAST_COPY).log(),
            log_softmax_share=functional.logsigmoid(-gate),
            vocabulary_size=len(model.vocabulary),
        )
        return looked.output.flatten(0, 1)[places], share


def _grid(contexts: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Rows laid out by context: the place of each row in the grid, and the grid of rows.

    The grid is (contexts, most rows of one context); places without a row repeat row 0.
    """
    counts = torch.bincount(contexts, minlength=number)
    widest = int(counts.max())
    first = counts.cumsum(0) - counts
    column = torch.arange(len(contexts)) - first[contexts]
    places = contexts * widest + column
    grid = torch.zeros(number * widest, dtype=torch.long)
    grid[places] = torch.arange(len(contexts))
    return places, grid.view(number, widest)
