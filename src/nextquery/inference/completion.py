"""Completion of a half-typed query in its context.

The decoder is forced along the whole words that are typed. If no space follows the last word, it is
a beginning, and only words that begin with it may follow. From there on `search.py` continues.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nextquery.inference.context import ContextBatch, SessionVocabulary
from nextquery.inference.decoder import Decoder, SearchStart
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
        is_complete = not words or not text[-1].isalnum()
        return cls(tuple(words), "") if is_complete else cls(tuple(words[:-1]), words[-1])

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
        self, decoder: Decoder[Any], index: WordIndex, known: KnownQueries | None = None
    ) -> None:
        """With `known`, only words that lead to one of these queries are considered."""
        self._decoder = decoder
        self._index = index
        self._known = known

    def begin(
        self, batch: ContextBatch[Any], typed: TypedPrefix, rules: ContextRules, most: int
    ) -> SearchStart:
        """Where the search begins: one prefix, or one for each word that the last may become.

        Of these words the most likely, at most `most`. `batch` has one context.
        """
        vocabulary = batch.vocabularies[0]
        start = SearchStart([rules], self._decoder.start(batch), LivePrefixes.start(1))
        candidates = self._candidates(vocabulary, typed.beginning)
        # A beginning that no word has is taken for a whole word that the model does not know.
        unknown = typed.beginning and not candidates
        for word in (*typed.words, typed.beginning) if unknown else typed.words:
            start = self._force(vocabulary, start, vocabulary.id(word))
        return self._branch(start, candidates, most) if candidates else start

    def _candidates(self, vocabulary: SessionVocabulary, beginning: str) -> list[int]:
        """The words that begin so, those of the session included."""
        if not beginning:
            return []
        outside = (word for word in vocabulary.distinct if vocabulary.is_outside(word))
        return [
            *self._index.beginning_with(beginning),
            *(word for word in outside if vocabulary.word(word).startswith(beginning)),
        ]

    def _force(self, vocabulary: SessionVocabulary, start: SearchStart, word: int) -> SearchStart:
        """The one prefix with a typed word, which counts as the unknown word if it is unknown."""
        rules, state, live = start
        scored = word if vocabulary.can_be_predicted(word) else UNKNOWN
        score = self._decoder.predict(state).of(np.array([[scored]]))[0]
        words = np.array([word])
        state = self._decoder.advance(state, np.array([0]), words)
        return SearchStart(rules, state, _longer(live, words, live.totals + score))

    def _branch(self, start: SearchStart, candidates: Sequence[int], most: int) -> SearchStart:
        """The one prefix with each of the best allowed candidates."""
        [rules], state, live = start
        typed = tuple(live.words[0].tolist())
        words = np.array(candidates)
        scores = self._decoder.predict(state).of(words[None])[0]
        refused = rules.refused([typed], np.zeros(len(words), dtype=np.int64), words)
        if self._known is not None:
            refused |= ~np.isin(words, self._known.next_words(typed))
        allowed = np.flatnonzero(~refused & (scores > -np.inf))
        chosen = allowed[np.argsort(-scores[allowed], kind="stable")[:most]]
        longer = _longer(live, words[chosen], live.totals + scores[chosen])
        parents = np.zeros(len(chosen), dtype=np.int64)
        state = self._decoder.advance(state, parents, words[chosen])
        return SearchStart([rules], state, longer)


def _longer(live: LivePrefixes, words: Ids, totals: Totals) -> LivePrefixes:
    """The first prefix with each of some words after it."""
    before = np.repeat(live.words[:1], len(words), axis=0)
    together = np.concatenate([before, words[:, None]], axis=1)
    return LivePrefixes(together, totals, np.zeros(len(words), dtype=np.int64))
