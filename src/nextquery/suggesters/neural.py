"""Trained networks as suggesters: any `NeuralModel`, HRED, and ensembles of models."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from nextquery.artifacts import Artifact, further_entries, publish, read_artifact
from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.inference import analysis
from nextquery.inference.analysis import Floats, query_weights, update_gates_many
from nextquery.inference.context import ContextLimits, ContextState
from nextquery.inference.decoder import NeuralModel
from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_network import HREDNetwork
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.transformer import TransformerModel
from nextquery.model.settings import KIND, TRANSFORMER
from nextquery.normalise import normalise_query
from nextquery.records import Neighbour, QueryWeight, ScoredQuery, Suggestion
from nextquery.suggesters.base import BatchScorer, Scorer


class Ensemble:
    """Scores with the mean of its members' probabilities of a query.

    >>> class Sure:
    ...     def __init__(self, probability):
    ...         self.probability = probability
    ...     def score(self, context, candidates):
    ...         return [ScoredQuery(text, math.log(self.probability), 2) for text in candidates]
    >>> found = Ensemble([Sure(0.1), Sure(0.3)]).score(["paris"], ["paris hotels"])
    >>> round(math.exp(found[0].log_likelihood), 3)
    0.2
    """

    def __init__(self, members: Sequence[Scorer]) -> None:
        self._members = tuple(members)

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The log of the mean likelihood of each candidate, in the given order."""
        return self.score_many([context], [candidates])[0]

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """What `score` gives for each context and its candidates."""
        by_member = [_scores(member, contexts, candidates) for member in self._members]
        return [
            [_mean(scored) for scored in zip(*lists, strict=True)]
            for lists in zip(*by_member, strict=True)
        ]


def _scores(
    member: Scorer, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
) -> list[list[ScoredQuery]]:
    if isinstance(member, BatchScorer):
        return member.score_many(contexts, candidates)
    pairs = zip(contexts, candidates, strict=True)
    return [member.score(context, texts) for context, texts in pairs]


def _mean(scored: Sequence[ScoredQuery]) -> ScoredQuery:
    """One query as all members see it; unknown is what any of them does not know."""
    total = float(np.logaddexp.reduce([query.log_likelihood for query in scored]))
    unknown = dict.fromkeys(word for query in scored for word in query.unknown)
    mean = total - math.log(len(scored))
    return ScoredQuery(scored[0].text, mean, scored[0].words, tuple(unknown))


class NeuralSuggester:
    """A trained network of any kind; several threads may ask it at once.

    A further network needs a subclass with `kind` and `open_model`.
    """

    kind: str

    @staticmethod
    def open_model(artifact: Artifact) -> NeuralModel[Any]:
        """Open the network of a model folder."""
        raise NotImplementedError

    @classmethod
    def load(
        cls, folder: Path | Artifact, guard: Guard, config: DecodeConfig | None = None
    ) -> Self:
        """Open a model folder with its guard."""
        artifact, predictor = read_artifact(
            folder, lambda artifact: (artifact, cls._predictor_of(artifact, guard)), cls.kind
        )
        suggester = cls(artifact, predictor, config or DecodeConfig())
        suggester.prepare()
        return suggester

    @classmethod
    def _predictor_of(cls, artifact: Artifact, guard: Guard) -> Predictor:
        limits = ContextLimits.from_manifest(artifact.manifest)
        return Predictor(cls.open_model(artifact), guard, limits)

    def __init__(self, artifact: Artifact, predictor: Predictor, config: DecodeConfig) -> None:
        self.config = config
        self.guard = predictor.guard
        self.model = predictor.model
        self._artifact = artifact
        self._predictor = predictor

    @property
    def limits(self) -> ContextLimits:
        """How much of a session is read."""
        return self._predictor.encoder.limits

    def prepare(self) -> None:
        """Make now what the first suggestion would have to wait for."""
        self._predictor.decoder(self.config.output_mode(len(self.model.vocabulary)))

    def save(self, path: Path) -> None:
        """Publish a copy of the model folder."""
        with publish(path, self.kind, further_entries(self._artifact.manifest)) as folder:
            self._artifact.copy_files(folder, self._artifact.manifest["files"])

    def suggest(
        self, context: Sequence[str], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        """At most `n` suggestions, best first; never a query of the context."""
        return self.suggest_many([context], n, config=config)[0]

    def suggest_many(
        self,
        contexts: Sequence[Sequence[str]],
        n: int = 5,
        *,
        config: DecodeConfig | None = None,
    ) -> list[list[Suggestion]]:
        """What `suggest` gives for each context, decoded together."""
        states = self._predictor.encoder.encode_many(contexts)
        return self.suggest_after(states, n, config=config)

    def start(self) -> ContextState[Any]:
        """The state of a session without any query."""
        return self._predictor.encoder.start()

    def extend(self, state: ContextState[Any], query: str) -> ContextState[Any]:
        """The state after one more query, which alone is encoded."""
        return self._predictor.encoder.extend(state, query)

    def encode(self, context: Sequence[str]) -> ContextState[Any]:
        """The state of a whole session; what a state holds follows from its `queries`."""
        return self._predictor.encoder.encode(context)

    def encode_many(self, contexts: Sequence[Sequence[str]]) -> list[ContextState[Any]]:
        """What `encode` gives for each context, computed together."""
        return self._predictor.encoder.encode_many(contexts)

    def suggest_after(
        self, states: Sequence[ContextState[Any]], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[list[Suggestion]]:
        """What `suggest_many` gives, for sessions whose states are known."""
        if _asks_for_none(n):
            return [[] for _ in states]
        return self._predictor.suggest_many(states, n, config or self.config)

    def score_after(
        self, states: Sequence[ContextState[Any]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """What `score_many` gives, for sessions whose states are known."""
        return self._predictor.score_many(states, candidates)

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The natural-log likelihood of each candidate given the context, in the given order."""
        return self.score_many([context], [candidates])[0]

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """What `score` gives for each context and its candidates, computed together."""
        return self.score_after(self.encode_many(contexts), candidates)

    @property
    def judges_usefulness(self) -> bool:
        """Whether the model was trained with a usefulness head."""
        return self._predictor.judges_usefulness

    def usefulness_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """P(useful | query, session) of each context's candidates; refused without a head."""
        states = self._predictor.encoder.encode_many(contexts)
        return self._predictor.usefulness_many(states, candidates)

    def complete(
        self,
        context: Sequence[str],
        prefix: str,
        n: int = 5,
        *,
        config: DecodeConfig | None = None,
    ) -> list[Suggestion]:
        """At most `n` queries that begin with `prefix`, best first; an empty one is `suggest`."""
        if _asks_for_none(n):
            return []
        state = self.encode(context)
        return self._predictor.complete(state, prefix, n, config or self.config)

    def neighbours(self, text: str, n: int = 10, *, words: bool = False) -> list[Neighbour]:
        """The nearest known queries, or with `words` the nearest words to a word."""
        if words:
            return analysis.nearest_words(self.model, text, n)
        known = self.guard.tables.queries.keys()
        return analysis.nearest_queries(self._predictor.encoder, known, text, n)

    def word_vectors(self) -> Floats:
        """The output vectors of all words (V, d_e), in the order of `model.vocabulary.words`."""
        return self.model.word_vectors()

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The vectors of queries (queries, size)."""
        return analysis.query_vectors(self._predictor.encoder, queries)


class HREDSuggester(NeuralSuggester):
    """A trained HRED, which explains itself by its session update gates."""

    kind = KIND

    @staticmethod
    def open_model(artifact: Artifact) -> HREDModel:
        """Open the network of a model folder."""
        return HREDModel.from_pretrained(artifact)

    @property
    def network(self) -> HREDNetwork:
        """Its weights and equations."""
        return self._hred.network

    @property
    def _hred(self) -> HREDModel:
        assert isinstance(self.model, HREDModel)
        return self.model

    def explain(self, context: Sequence[str]) -> list[QueryWeight]:
        """How much each query of the context counts (the paper's Figure 7)."""
        return query_weights(context, self.update_gates(context))

    def update_gates(self, context: Sequence[str]) -> Floats:
        """The session update gates of every query that has a word (queries, d_s)."""
        return self.update_gates_many([context])[0]

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[Floats]:
        """What `update_gates` gives for each context, computed together."""
        return update_gates_many(self._hred, self._predictor.encoder, contexts)


def _asks_for_none(n: int) -> bool:
    """Whether no suggestion is wanted; a negative number is refused."""
    if n < 0:
        raise InputError(f"n = {n}: must be at least 0")
    return n == 0


class TransformerSuggester(NeuralSuggester):
    """A trained session Transformer, which explains itself by its attention."""

    kind = TRANSFORMER

    @staticmethod
    def open_model(artifact: Artifact) -> TransformerModel:
        """Open the network of a model folder."""
        return TransformerModel.from_pretrained(artifact)

    def explain(self, context: Sequence[str]) -> list[QueryWeight]:
        """How much the network attends to each query of the context, as shares of 1."""
        encoder = self._predictor.encoder
        texts = encoder.normalised(context)
        assert isinstance(self.model, TransformerModel)
        [shares] = self.model.attention([encoder.read_part(texts)])
        left = [0.0] * (len(texts) - len(shares)) + shares.tolist()
        weights = []
        for query in context:
            share = left.pop(0) if normalise_query(query) else 0.0
            weights.append(QueryWeight(query, share, share))
        return weights
