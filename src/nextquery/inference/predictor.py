"""A trained network with everything it can be asked for, with its guard.

Combines the modules of this package. Asking changes nothing, so several threads may ask at once.
"""

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.inference.completion import Completer, TypedPrefix, WordIndex
from nextquery.inference.context import (
    DEFAULT_LIMITS,
    ContextBatch,
    ContextEncoder,
    ContextLimits,
    ContextState,
    SessionVocabulary,
)
from nextquery.inference.decoder import Decoder, NeuralModel
from nextquery.inference.gate import ListGate
from nextquery.inference.lists import Priors, appended, choose, rank
from nextquery.inference.rescoring import NO_HEAD, Rescorer, rank_by_use
from nextquery.inference.rules import ContextRules, KnownQueries, VocabularyRules
from nextquery.inference.search import BeamSearch, FinishedQuery, Sampler
from nextquery.inference.settings import MOST_BEAM, MOST_LOGITS, DecodeConfig, Mode
from nextquery.records import ScoredQuery, Suggestion

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
        known = self.guard.tables.queries
        return Priors(lambda texts: rescorer.score_many([start], [texts])[0], words, known)

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
        self, contexts: Contexts, config: DecodeConfig, wanted: int
    ) -> list[list[FinishedQuery]]:
        """The queries generated for each context, the best `wanted` for sure, in bounded memory."""
        rows = MOST_LOGITS // len(self.model.vocabulary)  # prefixes that are decoded together
        together = max(1, rows // config.beam)
        lists: list[list[FinishedQuery]] = []
        for start in range(0, len(contexts), together):
            lists += self._generate(contexts[start : start + together], config, wanted)
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
        more = self._generate_all([contexts[index] for index in short], free, config.beam)
        filled = list(lists)
        for index, queries in zip(short, self._ranked(more, config), strict=True):
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
        wanted = config.wanted(n)
        queries = self._ranked([self._completions(context, typed, config, wanted)], config)[0]
        if config.known == "prefer" and config.strategy == "beam" and len(queries) < n:
            free = config.model_copy(update={"known": "free"})
            more = self._ranked([self._completions(context, typed, free, wanted)], config)[0]
            queries = appended(queries, more, config)
        return self._choose(queries, n, config)

    def _completions(
        self, context: ContextState[Any], typed: TypedPrefix, config: DecodeConfig, wanted: int
    ) -> list[FinishedQuery]:
        """The finished queries that begin with what is typed."""
        given = [*typed.words, typed.beginning] if typed.beginning else typed.words
        batch = ContextBatch(self.model.vocabulary, [context], given)
        rules = self._rules_for(context, batch.vocabularies[0], config, typed.text)
        known = self._known_queries if config.known == "only" else None
        completer = Completer(self._decoder(config), self._words, known)
        if config.strategy == "sample":
            start = completer.begin(batch, typed, rules, config.top_k)
            return Sampler(self._decoder(config), config, known).resume(start)
        start = completer.begin(batch, typed, rules, config.beam)
        return self._search(config, wanted).resume(start)[0]

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

    def _search(self, config: DecodeConfig, wanted: int) -> BeamSearch:
        known = self._known_queries if config.known == "only" else None
        return BeamSearch(self._decoder(config), config, known, wanted)

    def score_many(
        self, contexts: Contexts, candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The natural-log likelihood of each context's candidates."""
        return Rescorer(self.decoder("exact")).score_many(contexts, candidates)

    def _generate(
        self, contexts: Contexts, config: DecodeConfig, wanted: int
    ) -> list[list[FinishedQuery]]:
        if config.strategy == "sample":
            return [self._sample(context, config) for context in contexts]
        batch = ContextBatch(self.model.vocabulary, contexts)
        rules = [
            self._rules_for(context, vocabulary, config)
            for context, vocabulary in zip(contexts, batch.vocabularies, strict=True)
        ]
        return self._search(config, wanted).search(batch, rules)

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
