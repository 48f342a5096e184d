"""A trained model with everything it can be asked for, behind its guard.

Puts the pieces of this package together; each of them is explained where it stands. Nothing in it
changes when it is asked, so several threads may ask at once.
"""

import threading
from collections.abc import Sequence
from functools import cached_property

from nextquery.guard.guard import Guard
from nextquery.inference.completion import Completer, TypedPrefix, WordIndex
from nextquery.inference.context import (
    DEFAULT_LIMITS,
    ContextEncoder,
    ContextLimits,
    ContextState,
    SessionVocabulary,
)
from nextquery.inference.decoder import ArrayDecoder, ContextBatch, Decoder
from nextquery.inference.lists import Priors, behind, choose, rank
from nextquery.inference.native import native_library
from nextquery.inference.native_decoder import NativeDecoder, PackedWeights
from nextquery.inference.network import Network
from nextquery.inference.rescoring import Rescorer, UsefulnessHead
from nextquery.inference.rules import ContextRules, KnownQueries, VocabularyRules
from nextquery.inference.search import BeamSearch, FinishedQuery, Sampler
from nextquery.inference.settings import MOST_BEAM, MOST_LOGITS, DecodeConfig, Mode
from nextquery.records import ScoredQuery, Suggestion


class Predictor:
    """Suggests, scores and completes after contexts that `encoder` has read."""

    def __init__(
        self,
        model: Network,
        guard: Guard,
        limits: ContextLimits = DEFAULT_LIMITS,
        *,
        compiled: bool = True,
    ) -> None:
        """Without `compiled`, or where the compiled kernels are missing, NumPy computes alone."""
        self.model = model
        self.guard = guard
        self.encoder = ContextEncoder(model, limits)
        self.usefulness = UsefulnessHead(model)
        self._rules = VocabularyRules(guard, model.vocabulary)
        self._decoders: dict[Mode, Decoder] = {}
        self._priors: dict[Mode, Priors] = {}
        self._making = threading.Lock()
        library = native_library() if compiled else None
        self._packed = None if library is None else PackedWeights(model, library)

    @cached_property
    def _words(self) -> WordIndex:
        return WordIndex(self.model.vocabulary)

    def decoder(self, mode: Mode) -> Decoder:
        """The decoder of a mode, made when first asked for."""
        with self._making:
            if mode not in self._decoders:
                decoder: Decoder = ArrayDecoder(self.model)
                if self._packed is not None:
                    decoder = NativeDecoder(self._packed, mode)
                self._priors[mode] = self._prior_table(Rescorer(decoder))
                self._decoders[mode] = decoder
            return self._decoders[mode]

    def _prior_table(self, rescorer: Rescorer) -> Priors:
        start = self.encoder.start()
        words = len(self.model.vocabulary)
        known = self.guard.tables.queries
        return Priors(lambda texts: rescorer.score_many([start], [texts])[0], words, known)

    def _decoder(self, config: DecodeConfig) -> Decoder:
        return self.decoder(config.output_mode(len(self.model.vocabulary)))

    def suggest_many(
        self, contexts: Sequence[ContextState], n: int, config: DecodeConfig
    ) -> list[list[Suggestion]]:
        """At most `n` suggestions for each context, best first."""
        config = config.for_list(n)
        if config.usefulness:
            self.usefulness.require()
        found = self._generate_all(contexts, config, config.wanted(n))
        lists = self._by_use(contexts, self._ranked(found, config), config)
        if config.known == "prefer" and config.strategy == "beam":
            lists = self._filled(contexts, lists, n, config)
        return [self._choose(found, n, config) for found in lists]

    def _generate_all(
        self, contexts: Sequence[ContextState], config: DecodeConfig, wanted: int
    ) -> list[list[FinishedQuery]]:
        """What is found for each context, the best `wanted` for sure, in bounded memory."""
        rows = MOST_LOGITS // len(self.model.vocabulary)  # prefixes that are decoded together
        together = max(1, rows // config.beam)
        lists: list[list[FinishedQuery]] = []
        for start in range(0, len(contexts), together):
            lists += self._generate(contexts[start : start + together], config, wanted)
        return lists

    def _filled(
        self,
        contexts: Sequence[ContextState],
        lists: Sequence[list[FinishedQuery]],
        n: int,
        config: DecodeConfig,
    ) -> list[list[FinishedQuery]]:
        """Behind lists of fewer than `n`: queries with words side by side that never stood so."""
        short = [place for place, found in enumerate(lists) if len(found) < n]
        freely = config.model_copy(update={"known": "free"})
        more = self._generate_all([contexts[place] for place in short], freely, config.beam)
        filled = list(lists)
        for place, found in zip(short, self._ranked(more, config), strict=True):
            filled[place] = behind(lists[place], found, config)
        return filled

    def complete(
        self, context: ContextState, prefix: str, n: int, config: DecodeConfig
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
        found = self._ranked([self._completions(context, typed, config, wanted)], config)[0]
        if config.known == "prefer" and config.strategy == "beam" and len(found) < n:
            freely = config.model_copy(update={"known": "free"})
            more = self._ranked([self._completions(context, typed, freely, wanted)], config)[0]
            found = behind(found, more, config)
        return self._choose(found, n, config)

    def _completions(
        self, context: ContextState, typed: TypedPrefix, config: DecodeConfig, wanted: int
    ) -> list[FinishedQuery]:
        """The finished queries that begin with what is typed."""
        given = [*typed.words, typed.beginning] if typed.beginning else typed.words
        batch = ContextBatch(self.model, [context], given)
        rules = self._rules_for(context, batch.own[0], config, typed.text)
        known = self._known_queries if config.known == "only" else None
        completer = Completer(self._decoder(config), self._words, known)
        if config.strategy == "sample":
            prefixes, live = completer.begin(batch, typed, rules, config.top_k)
            sampler = Sampler(self._decoder(config), config, known)
            return sampler.resume(batch, rules, prefixes, live)
        prefixes, live = completer.begin(batch, typed, rules, config.beam)
        return self._search(config, wanted).resume(batch, [rules], prefixes, live)[0]

    def _ranked(
        self, lists: Sequence[Sequence[FinishedQuery]], config: DecodeConfig
    ) -> list[list[FinishedQuery]]:
        """The lists ordered by specificity and by whether queries are known, if either counts."""
        if not config.specificity and config.known != "prefer":
            return list(map(list, lists))
        priors: dict[str, float] = {}
        if config.specificity:
            self._decoder(config)
            table = self._priors[config.output_mode(len(self.model.vocabulary))]
            priors = table.of(each.text for found in lists for each in found)
        return [rank(found, config, priors, self.guard.tables.queries) for found in lists]

    def _by_use(
        self,
        contexts: Sequence[ContextState],
        lists: list[list[FinishedQuery]],
        config: DecodeConfig,
    ) -> list[list[FinishedQuery]]:
        """The lists ordered by how likely queries are useful, too, if that counts."""
        if not config.usefulness:
            return lists
        return self.usefulness.rank(contexts, lists, config.usefulness, config.length_normalised)

    @cached_property
    def _known_queries(self) -> KnownQueries:
        return KnownQueries(self.guard.tables.queries.keys(), self.model.vocabulary)

    def _search(self, config: DecodeConfig, wanted: int) -> BeamSearch:
        known = self._known_queries if config.known == "only" else None
        return BeamSearch(self._decoder(config), config, known, wanted)

    def score_many(
        self, contexts: Sequence[ContextState], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The natural-log likelihood of each context's candidates."""
        return Rescorer(self.decoder("exact")).score_many(contexts, candidates)

    def _generate(
        self, contexts: Sequence[ContextState], config: DecodeConfig, wanted: int
    ) -> list[list[FinishedQuery]]:
        if config.strategy == "sample":
            return [self._sample(context, config) for context in contexts]
        batch = ContextBatch(self.model, contexts)
        rules = [
            self._rules_for(context, own, config)
            for context, own in zip(contexts, batch.own, strict=True)
        ]
        return self._search(config, wanted).search(batch, rules)

    def _rules_for(
        self, context: ContextState, own: SessionVocabulary, config: DecodeConfig, *typed: str
    ) -> ContextRules:
        """The guard's rules after a context and what is `typed` of the next query."""
        return self._rules.for_context(
            (*context.queries, *typed),
            own,
            read=(*self.encoder.read_queries(context), *typed),
            seen_pairs=config.known == "prefer",
        )

    def _sample(self, context: ContextState, config: DecodeConfig) -> list[FinishedQuery]:
        """By itself, so that what is drawn does not depend on the other contexts."""
        batch = ContextBatch(self.model, [context])
        rules = self._rules_for(context, batch.own[0], config)
        known = self._known_queries if config.known == "only" else None
        return Sampler(self._decoder(config), config, known).sample(batch, rules)

    def _choose(
        self, found: Sequence[FinishedQuery], n: int, config: DecodeConfig
    ) -> list[Suggestion]:
        """The `n` of a ranked list that are shown."""
        return choose(found, n, config, self.guard.source, self.encoder.query_vectors)
