"""Finishing a half-typed query in its context: decoding held to what is typed so far.

The whole words that are typed are given; the last word, if no space follows it, is a beginning,
and only words that begin with it may stand there. Knows prefixes of words and where the search
begins; the search itself is that of `beam.py` or `sampling.py`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nextquery.inference.context import SessionVocabulary
from nextquery.inference.decoder import ContextBatch, Decoder, Prefixes
from nextquery.inference.rules import ContextRules, Ids, KnownQueries, LivePrefixes, Totals
from nextquery.normalise import normalise_query
from nextquery.text.vocabulary import SPECIAL, UNKNOWN, Vocabulary


@dataclass(frozen=True)
class TypedPrefix:
    """A half-typed query: its whole words, and the beginning of one more (may be empty)."""

    words: tuple[str, ...]
    beginning: str

    @classmethod
    def read(cls, text: str) -> "TypedPrefix":
        """What is typed; a last word is whole only when something follows it."""
        words = normalise_query(text).split()
        whole = not words or not text[-1].isalnum()
        return cls(tuple(words), "") if whole else cls(tuple(words[:-1]), words[-1])

    @property
    def text(self) -> str:
        """All of it, normalised."""
        return " ".join([*self.words, self.beginning]).strip()


class WordIndex:
    """The words of a vocabulary in alphabetical order, to find those with a given beginning."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        first = len(SPECIAL)
        self._ids = sorted(range(first, len(vocabulary)), key=vocabulary.words.__getitem__)
        self._words = [vocabulary.words[word] for word in self._ids]

    def beginning_with(self, text: str) -> list[int]:
        """The ids of the words that begin with `text`."""
        start = bisect_left(self._words, text)
        stop = bisect_left(self._words, text + chr(0x10FFFF), lo=start)
        return self._ids[start:stop]


class Completer:
    """Brings a search to the point where what is typed ends."""

    def __init__(
        self, decoder: Decoder, index: WordIndex, known: KnownQueries | None = None
    ) -> None:
        """With `known`, only words that lead to one of these queries are gone on with."""
        self._decoder = decoder
        self._index = index
        self._known = known

    def begin(
        self, batch: ContextBatch, typed: TypedPrefix, rules: ContextRules, most: int
    ) -> tuple[Prefixes, LivePrefixes]:
        """Where the search begins: one prefix, or one for each word that the last may become.

        Of these words the likeliest, at most `most`.
        """
        own = batch.own[0]
        prefixes, live = self._decoder.start(batch), LivePrefixes.start(1)
        possible = self._possible(own, typed.beginning)
        # A beginning that no word has is taken for a whole word that the model does not know.
        given = typed.words if possible or not typed.beginning else (*typed.words, typed.beginning)
        for word in given:
            prefixes, live = self._force(batch, prefixes, live, own.id(word))
        if not possible:
            return prefixes, live
        return self._branch(batch, (prefixes, live), possible, rules, most)

    def _possible(self, own: SessionVocabulary, beginning: str) -> list[int]:
        if not beginning:
            return []
        found = self._index.beginning_with(beginning)
        copied = (word for word in own.distinct if own.is_outside(word))
        return [*found, *(word for word in copied if own.word(word).startswith(beginning))]

    def _force(
        self, batch: ContextBatch, prefixes: Prefixes, live: LivePrefixes, word: int
    ) -> tuple[Prefixes, LivePrefixes]:
        scored = word if batch.own[0].can_be_predicted(word) else UNKNOWN
        score = self._decoder.predict(batch, prefixes).of(np.array([[scored]]))[0]
        words = np.array([word])
        longer = _longer(live, words, live.totals + score)
        return self._decoder.advance(batch, prefixes, np.array([0]), words), longer

    def _branch(
        self,
        batch: ContextBatch,
        before: tuple[Prefixes, LivePrefixes],
        possible: Sequence[int],
        rules: ContextRules,
        most: int,
    ) -> tuple[Prefixes, LivePrefixes]:
        """The best allowed words with the typed beginning."""
        prefixes, live = before
        typed = tuple(live.words[0].tolist())
        words = np.array(possible)
        scores = self._decoder.predict(batch, prefixes).of(words[None])[0]
        rows = np.zeros(len(possible), dtype=np.int64)
        refused = rules.refused([typed], rows, words)
        if self._known is not None:
            refused |= ~np.isin(words, self._known.next_words(typed))
        allowed = np.flatnonzero(~refused & (scores > -np.inf))
        places = allowed[np.argsort(-scores[allowed], kind="stable")[:most]]
        parents = np.zeros(len(places), dtype=np.int64)
        longer = _longer(live, words[places], live.totals + scores[places])
        return self._decoder.advance(batch, prefixes, parents, words[places]), longer


def _longer(live: LivePrefixes, words: Ids, totals: Totals) -> LivePrefixes:
    """What stands in the first row with one of some words behind it."""
    before = np.repeat(live.words[:1], len(words), axis=0)
    together = np.concatenate([before, words[:, None]], axis=1)
    return LivePrefixes(together, totals, np.zeros(len(words), dtype=np.int64))
