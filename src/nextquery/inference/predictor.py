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
from nextquery.inference.search import BeamSearch, FinishedQuery, Sampler
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


class Completer:
    """Brings a search to the point where the typed prefix ends.

    The decoder is forced along the whole words of the prefix. If no space follows the last word,
    only words that begin with it may follow. From there the beam search continues.
    """

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
                self._priors[mode] = self._prior_table(Rescorer(decoder))
                self._decoders[mode] = decoder
            return self._decoders[mode]

    def _prior_table(self, rescorer: Rescorer) -> Priors:
        start = self.encoder.start()
        words = len(self.model.vocabulary)
        query_counts = self.guard.tables.queries
        return Priors(lambda texts: rescorer.score_many([start], [texts])[0], words, query_counts)

    def _decoder(self, config: DecodeConfig) -> Decoder[Any]:
        return self.decoder(config.output_mode(len(self.model.vocabulary)))

    def suggest_many(
        self, contexts: Contexts, n: int, config: DecodeConfig
    ) -> list[list[Suggestion]]:
        """At most `n` suggestions for each context, best first."""
        config = config.for_list(n)
        if config.usefulness and not self.judges_usefulness:
            raise InputError(NO_HEAD)
        generated = self._generate_all(contexts, config, config.wanted(n))
        lists = self._by_use(contexts, self._ranked(generated, config), config)
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
        together = max(1, rows // config.beam)
        lists: list[list[FinishedQuery]] = []
        for start in range(0, len(contexts), together):
            lists += self._generate(contexts[start : start + together], config, pool_size)
        return lists

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
        pool_size = config.wanted(n)
        queries = self._ranked([self._completions(context, typed, config, pool_size)], config)[0]
        if config.known == "prefer" and config.strategy == "beam" and len(queries) < n:
            free = config.model_copy(update={"known": "free"})
            unrestricted = self._ranked(
                [self._completions(context, typed, free, pool_size)], config
            )[0]
            queries = appended(queries, unrestricted, config)
        return self._choose(queries, n, config)

    def _completions(
        self, context: ContextState[Any], typed: TypedPrefix, config: DecodeConfig, pool_size: int
    ) -> list[FinishedQuery]:
        """The finished queries that begin with what is typed."""
        typed_words = [*typed.words, typed.beginning] if typed.beginning else typed.words
        batch = ContextBatch(self.model.vocabulary, [context], typed_words)
        rules = self._rules_for(context, batch.vocabularies[0], config, typed.text)
        known = self._known_queries if config.known == "only" else None
        completer = Completer(self._decoder(config), self._words, known)
        if config.strategy == "sample":
            start = completer.begin(batch, typed, rules, config.top_k)
            return Sampler(self._decoder(config), config, known).resume(start)
        start = completer.begin(batch, typed, rules, config.beam)
        return self._search(config, pool_size).resume(start)[0]

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

    def _by_use(
        self, contexts: Contexts, lists: list[list[FinishedQuery]], config: DecodeConfig
    ) -> list[list[FinishedQuery]]:
        """The lists ordered by how likely queries are useful, too, if that counts."""
        if not config.usefulness:
            return lists
        texts = [[query.text for query in queries] for queries in lists]
        return [
            rank_by_use(queries, useful, config.usefulness, config.length_normalised)
            for queries, useful in zip(lists, self.usefulness_many(contexts, texts), strict=True)
        ]

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

    def _search(self, config: DecodeConfig, pool_size: int) -> BeamSearch:
        known = self._known_queries if config.known == "only" else None
        return BeamSearch(self._decoder(config), config, known, pool_size)

    def score_many(
        self, contexts: Contexts, candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The natural-log likelihood of each context's candidates."""
        return Rescorer(self.decoder("exact")).score_many(contexts, candidates)

    def _generate(
        self, contexts: Contexts, config: DecodeConfig, pool_size: int
    ) -> list[list[FinishedQuery]]:
        if config.strategy == "sample":
            return [self._sample(context, config) for context in contexts]
        batch = ContextBatch(self.model.vocabulary, contexts)
        rules = [
            self._rules_for(context, vocabulary, config)
            for context, vocabulary in zip(contexts, batch.vocabularies, strict=True)
        ]
        return self._search(config, pool_size).search(batch, rules)

    def _rules_for(
        self,
        context: ContextState[Any],
        vocabulary: SessionVocabulary,
        config: DecodeConfig,
        *typed: str,
    ) -> ContextRules:
        """The guard's rules after a context and what is `typed` of the next query."""
        return self._rules.for_context(
            (*context.queries, *typed),
            vocabulary,
            read=(*self.encoder.read_part(context.queries), *typed),
            seen_pairs=config.known == "prefer",
            quality=config.quality,
            completes=bool(typed),
        )

    def _sample(self, context: ContextState[Any], config: DecodeConfig) -> list[FinishedQuery]:
        """Sampled alone, so that the draw does not depend on the other contexts."""
        batch = ContextBatch(self.model.vocabulary, [context])
        rules = self._rules_for(context, batch.vocabularies[0], config)
        known = self._known_queries if config.known == "only" else None
        return Sampler(self._decoder(config), config, known).sample(batch, rules)

    def _choose(
        self, queries: Sequence[FinishedQuery], n: int, config: DecodeConfig
    ) -> list[Suggestion]:
        """The `n` of a ranked list that are shown."""
        return choose(queries, n, config, self.guard.source, self.encoder.query_vectors)
