"""A trained network with everything it can be asked for, with its guard.

Combines the modules of this package. Asking changes nothing, so several threads may ask at once.
"""

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.inference.context import (
    DEFAULT_LIMITS,
    ContextBatch,
    ContextEncoder,
    ContextLimits,
    ContextState,
    SessionVocabulary,
)
from nextquery.inference.decoder import Decoder, NeuralModel, SearchStart
from nextquery.inference.gate import ListGate
from nextquery.inference.lists import Priors, appended, choose, rank
from nextquery.inference.rescoring import NO_HEAD, Rescorer, rank_by_use
from nextquery.inference.rules import (
    ContextRules,
    Ids,
    KnownQueries,
    LivePrefixes,
    Totals,
    VocabularyRules,
)
from nextquery.inference.search import FinishedQuery, beam_search, sample
from nextquery.inference.settings import MOST_BEAM, MOST_LOGITS, DecodeConfig, Mode
from nextquery.normalise import normalise_query
from nextquery.records import ScoredQuery, Suggestion
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


def _after_typed(
    decoder: Decoder[Any], vocabulary: SessionVocabulary, start: SearchStart, word: int
) -> SearchStart:
    """The one prefix with a typed word, which counts as the unknown word if it is unknown."""
    rules, state, live = start
    scored = word if vocabulary.can_be_predicted(word) else UNKNOWN
    score = decoder.predict(state).of(np.array([[scored]]))[0]
    words = np.array([word])
    state = decoder.advance(state, np.array([0]), words)
    return SearchStart(rules, state, _longer(live, words, live.totals + score))


def _branches(
    decoder: Decoder[Any],
    start: SearchStart,
    candidates: Sequence[int],
    most: int,
    known: KnownQueries | None,
) -> SearchStart:
    """The one prefix with each of the `most` likeliest allowed candidates."""
    [rules], state, live = start
    typed = tuple(live.words[0].tolist())
    words = np.array(candidates)
    scores = decoder.predict(state).of(words[None])[0]
    refused = rules.refused([typed], np.zeros(len(words), dtype=np.int64), words)
    if known is not None:
        refused |= ~np.isin(words, known.next_words(typed))
    allowed = np.flatnonzero(~refused & (scores > -np.inf))
    chosen = allowed[np.argsort(-scores[allowed], kind="stable")[:most]]
    longer = _longer(live, words[chosen], live.totals + scores[chosen])
    state = decoder.advance(state, np.zeros(len(chosen), dtype=np.int64), words[chosen])
    return SearchStart([rules], state, longer)


def _longer(live: LivePrefixes, words: Ids, totals: Totals) -> LivePrefixes:
    """The first prefix with each of some words after it."""
    before = np.repeat(live.words[:1], len(words), axis=0)
    together = np.concatenate([before, words[:, None]], axis=1)
    return LivePrefixes(together, totals, np.zeros(len(words), dtype=np.int64))


Contexts = Sequence[ContextState[Any]]


class Predictor:
    """Suggests, scores and completes after contexts that `encoder` has read."""

    def __init__(
        self, model: NeuralModel[Any], guard: Guard, limits: ContextLimits = DEFAULT_LIMITS
    ) -> None:
        self.model = model
        self.guard = guard
        self.encoder = ContextEncoder(model, limits)
        self.gate = ListGate(guard, self.encoder.query_vectors)
        self._rules = VocabularyRules(guard, model.vocabulary)
        self._decoders: dict[Mode, Decoder[Any]] = {}
        self._priors: dict[Mode, Priors] = {}
        self._making = threading.Lock()

    @cached_property
    def _words(self) -> WordIndex:
        return WordIndex(self.model.vocabulary)

    def decoder(self, mode: Mode) -> Decoder[Any]:
        """The decoder of a mode, made when first asked for."""
        with self._making:
            if mode not in self._decoders:
                decoder = self.model.decoder(mode)
                rescorer, start = Rescorer(decoder), self.encoder.start()
                self._priors[mode] = Priors(
                    lambda texts: rescorer.score_many([start], [texts])[0],
                    len(self.model.vocabulary),
                    self.guard.tables.queries,
                )
                self._decoders[mode] = decoder
            return self._decoders[mode]

    def _decoder(self, config: DecodeConfig) -> Decoder[Any]:
        return self.decoder(config.output_mode(len(self.model.vocabulary)))

    def suggest_many(
        self, contexts: Contexts, n: int, config: DecodeConfig
    ) -> list[list[Suggestion]]:
        """At most `n` suggestions for each context, best first."""
        config = config.for_list(n)
        if config.usefulness and not self.judges_usefulness:
            raise InputError(NO_HEAD)
        generated = self._generate_all(contexts, config, config.pool_size(n))
        lists = self._ranked(generated, config)
        if config.usefulness:
            texts = [[query.text for query in queries] for queries in lists]
            lists = [
                rank_by_use(queries, useful, config.usefulness, config.length_normalised)
                for queries, useful in zip(
                    lists, self.usefulness_many(contexts, texts), strict=True
                )
            ]
        if self._gated(config):
            lists = [
                self.gate.select(queries, context.queries, config)
                for context, queries in zip(contexts, lists, strict=True)
            ]
        elif config.known == "prefer" and config.strategy == "beam":
            lists = self._filled(contexts, lists, n, config)
        return [self._choose(queries, n, config) for queries in lists]

    def _gated(self, config: DecodeConfig) -> bool:
        """Whether only text of good quality is shown."""
        return config.quality and self.gate.exists

    def _generate_all(
        self, contexts: Contexts, config: DecodeConfig, pool_size: int
    ) -> list[list[FinishedQuery]]:
        """Generate queries for each context, at least the best `pool_size`, in bounded memory."""
        rows = MOST_LOGITS // len(self.model.vocabulary)  # prefixes that are decoded together
        # Sampled one by one, so that a draw does not depend on the other contexts.
        together = max(1, rows // config.beam) if config.strategy == "beam" else 1
        lists: list[list[FinishedQuery]] = []
        for first in range(0, len(contexts), together):
            part = contexts[first : first + together]
            batch = ContextBatch(self.model.vocabulary, part)
            rules = [
                self._rules_for(context, vocabulary, config)
                for context, vocabulary in zip(part, batch.vocabularies, strict=True)
            ]
            state = self._decoder(config).start(batch)
            start = SearchStart(rules, state, LivePrefixes.start(len(part)))
            lists += self._search(start, config, pool_size)
        return lists

    def _search(
        self, start: SearchStart, config: DecodeConfig, pool_size: int
    ) -> list[list[FinishedQuery]]:
        """The finished queries after some prefixes, by beam search or sampling."""
        decoder = self._decoder(config)
        if config.strategy == "sample":
            return [sample(decoder, config, start, self._only(config))]
        return beam_search(decoder, config, start, self._only(config), pool_size)

    def _only(self, config: DecodeConfig) -> KnownQueries | None:
        """The queries that alone may be suggested; None: any."""
        return self._known_queries if config.known == "only" else None

    def _filled(
        self,
        contexts: Contexts,
        lists: Sequence[list[FinishedQuery]],
        n: int,
        config: DecodeConfig,
    ) -> list[list[FinishedQuery]]:
        """Lists of fewer than `n` filled up with queries whose pairs of words are new."""
        short = [index for index, queries in enumerate(lists) if len(queries) < n]
        free = config.model_copy(update={"known": "free"})
        unrestricted = self._generate_all([contexts[index] for index in short], free, config.beam)
        filled = list(lists)
        for index, queries in zip(short, self._ranked(unrestricted, config), strict=True):
            filled[index] = appended(lists[index], queries, config)
        return filled

    def complete(
        self, context: ContextState[Any], prefix: str, n: int, config: DecodeConfig
    ) -> list[Suggestion]:
        """At most `n` queries that begin with what is typed, best first."""
        typed = TypedPrefix.read(prefix)
        if not typed.text:
            return self.suggest_many([context], n, config)[0]
        longest = max(config.max_words, len(typed.words) + 3)
        changes = {
            "beam": min(max(config.beam, n), MOST_BEAM),
            "max_words": longest,
            "specificity": 0.0,
        }
        config = config.model_copy(update=changes)
        pool_size = config.pool_size(n)
        [queries] = self._ranked([self._completions(context, typed, config, pool_size)], config)
        if config.known == "prefer" and config.strategy == "beam" and len(queries) < n:
            free = config.model_copy(update={"known": "free"})
            unrestricted = self._completions(context, typed, free, pool_size)
            queries = appended(queries, self._ranked([unrestricted], config)[0], config)
        return self._choose(queries, n, config)

    def _completions(
        self, context: ContextState[Any], typed: TypedPrefix, config: DecodeConfig, pool_size: int
    ) -> list[FinishedQuery]:
        """The finished queries that begin with what is typed.

        The decoder is forced along the whole words. If no space follows the last word, the search
        continues from the likeliest words that begin with it.
        """
        typed_words = [*typed.words, typed.beginning] if typed.beginning else typed.words
        batch = ContextBatch(self.model.vocabulary, [context], typed_words)
        [vocabulary], decoder = batch.vocabularies, self._decoder(config)
        rules = self._rules_for(context, vocabulary, config, typed.text)
        start = SearchStart([rules], decoder.start(batch), LivePrefixes.start(1))
        candidates: list[int] = []
        if typed.beginning:
            outside = (word for word in vocabulary.distinct if vocabulary.is_outside(word))
            candidates = [
                *self._words.beginning_with(typed.beginning),
                *(word for word in outside if vocabulary.word(word).startswith(typed.beginning)),
            ]
        # A beginning that no word has is taken for a whole word that the model does not know.
        for word in typed.words if candidates else typed_words:
            start = _after_typed(decoder, vocabulary, start, vocabulary.id(word))
        if candidates:
            most = config.top_k if config.strategy == "sample" else config.beam
            start = _branches(decoder, start, candidates, most, self._only(config))
        return self._search(start, config, pool_size)[0]

    def _ranked(
        self, lists: Sequence[Sequence[FinishedQuery]], config: DecodeConfig
    ) -> list[list[FinishedQuery]]:
        """The lists ordered by specificity and by whether queries are known, if either counts."""
        if not config.specificity and config.known != "prefer" and not self._gated(config):
            return list(map(list, lists))
        priors: dict[str, float] = {}
        if config.specificity or self._gated(config):
            self._decoder(config)
            table = self._priors[config.output_mode(len(self.model.vocabulary))]
            priors = table.of(query.text for queries in lists for query in queries)
        return [rank(queries, config, priors, self.guard.tables.queries) for queries in lists]

    @property
    def judges_usefulness(self) -> bool:
        """Whether the network was trained with a usefulness head."""
        return self.model.usefulness_head is not None

    def usefulness_many(
        self, contexts: Contexts, texts: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """P(useful | q, session) of each context's queries; refused without a head."""
        head = self.model.usefulness_head
        if head is None:
            raise InputError(NO_HEAD)
        return head.probabilities([context.memory for context in contexts], texts)

    @cached_property
    def _known_queries(self) -> KnownQueries:
        return KnownQueries(self.guard.tables.queries.keys(), self.model.vocabulary)

    def score_many(
        self, contexts: Contexts, candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The natural-log likelihood of each context's candidates."""
        return Rescorer(self.decoder("exact")).score_many(contexts, candidates)

    def _rules_for(
        self,
        context: ContextState[Any],
        vocabulary: SessionVocabulary,
        config: DecodeConfig,
        *typed: str,
    ) -> ContextRules:
        """The guard's rules after a context and what is `typed` of the next query."""
        return ContextRules(
            self._rules,
            (*context.queries, *typed),
            vocabulary,
            read=(*self.encoder.read_part(context.queries), *typed),
            seen_pairs=config.known == "prefer",
            quality=config.quality,
            completes=bool(typed),
        )

    def _choose(
        self, queries: Sequence[FinishedQuery], n: int, config: DecodeConfig
    ) -> list[Suggestion]:
        """The `n` of a ranked list that are shown."""
        return choose(queries, n, config, self.guard.source, self.encoder.query_vectors)
