"""Trained networks as suggesters: any `NeuralModel`, HRED, the Transformer, ensembles.

With explanations (session update gates) and nearest neighbours among word and query vectors.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact, read_artifact, replaced_file
from nextquery.errors import InputError
from nextquery.guard.guard import Guard
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
from nextquery.suggesters.base import BatchScorer, Scorer, SessionSuggester, asks_for_none
from nextquery.text.vocabulary import SPECIAL

Floats = NDArray[np.float32]

_QUERIES_TOGETHER = 512
"""Queries that are encoded together."""


def query_weights(context: Sequence[str], gates: Floats) -> list[QueryWeight]:
    """The weight of each query by its gates; a query without a word has weight 0."""
    later = np.ones_like(gates)  # the product of (1 - u) over the queries after each one
    later[:-1] = np.cumprod((1.0 - gates)[:0:-1], axis=0)[::-1]
    share = (gates * later).mean(axis=1) if len(gates) else np.zeros(0)
    row, weights = 0, []
    for query in context:
        if not normalise_query(query):
            weights.append(QueryWeight(query, 0.0, 0.0))
            continue
        weights.append(QueryWeight(query, float(gates[row].mean()), float(share[row])))
        row += 1
    return weights


def draw_gates(weights: Sequence[QueryWeight], gates: Floats, path: Path) -> None:
    """The gates as a heat map: one row per query, dimensions sorted by the last query's gate."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"text.parse_math": False}):  # a query may be "$\\frac$"
        figure = Figure(figsize=(7.0, 1.4 + 0.45 * len(gates)), layout="constrained")
        axes = figure.add_subplot()
        order = np.argsort(-gates[-1]) if len(gates) else slice(None)
        image = axes.imshow(
            gates[:, order], "gray", aspect="auto", vmin=0.0, vmax=1.0, interpolation="nearest"
        )
        axes.set_yticks([row - 0.5 for row in range(1, len(gates))], minor=True)
        axes.grid(axis="y", which="minor", color="white", linewidth=2)
        labels = [f"{w.query}  ({w.update:.2f})" for w in weights if normalise_query(w.query)]
        axes.set_yticks(range(len(labels)), labels)
        axes.set_xlabel("dimensions of the session state, sorted by the gate of the last query")
        axes.set_title("Session update gates: the darker, the more a query is discarded", size=10)
        figure.colorbar(image, ax=axes, label="update gate")
        with replaced_file(path) as stream:
            figure.savefig(stream, dpi=150, format=path.suffix[1:].lower())


def _nearest(texts: Sequence[str], vectors: Floats, vector: Floats, n: int) -> list[Neighbour]:
    """The texts whose vectors (texts, size) have the highest cosines with a vector (size,)."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
    cosines = vectors @ vector / np.maximum(lengths, 1e-12)
    order = np.argsort(-cosines, kind="stable")[:n]
    return [Neighbour(texts[index], float(cosines[index])) for index in order]


class Ensemble:
    """Scores with the mean of its members' probabilities of a query.

    >>> class Sure:
    ...     def __init__(self, probability):
    ...         self.probability = probability
    ...     def score(self, context, candidates):
    ...         return [ScoredQuery(text, math.log(self.probability), 2) for text in candidates]
    >>> scored = Ensemble([Sure(0.1), Sure(0.3)]).score(["paris"], ["paris hotels"])
    >>> round(math.exp(scored[0].log_likelihood), 3)
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
        by_member = [
            member.score_many(contexts, candidates)
            if isinstance(member, BatchScorer)
            else [member.score(*pair) for pair in zip(contexts, candidates, strict=True)]
            for member in self._members
        ]
        return [
            [_mean(scored) for scored in zip(*lists, strict=True)]
            for lists in zip(*by_member, strict=True)
        ]


def _mean(scored: Sequence[ScoredQuery]) -> ScoredQuery:
    """One query as all members see it; unknown is what any of them does not know."""
    total = float(np.logaddexp.reduce([query.log_likelihood for query in scored]))
    unknown = dict.fromkeys(word for query in scored for word in query.unknown)
    mean = total - math.log(len(scored))
    return ScoredQuery(scored[0].text, mean, scored[0].words, tuple(unknown))


class NeuralSuggester(SessionSuggester[ContextState[Any]]):
    """A trained network of any kind; several threads may ask it at once.

    A further network needs a subclass with `kind` and `open_model`.
    """

    @staticmethod
    def open_model(artifact: Artifact) -> NeuralModel[Any]:
        """Open the network of a model folder."""
        raise NotImplementedError

    @classmethod
    def load(
        cls, folder: Path | Artifact, guard: Guard, config: DecodeConfig | None = None
    ) -> Self:
        """Open a model folder with its guard."""

        def read(artifact: Artifact) -> tuple[Artifact, Predictor]:
            limits = ContextLimits.from_manifest(artifact.manifest)
            return artifact, Predictor(cls.open_model(artifact), guard, limits)

        suggester = cls(*read_artifact(folder, read, cls.kind), config or DecodeConfig())
        suggester.prepare()
        return suggester

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
        if asks_for_none(n):
            return [[] for _ in states]
        return self._predictor.suggest_many(states, n, config or self.config)

    def score_after(
        self, states: Sequence[ContextState[Any]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """What `score_many` gives, for sessions whose states are known."""
        return self._predictor.score_many(states, candidates)

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
        if asks_for_none(n):
            return []
        state = self.encode(context)
        return self._predictor.complete(state, prefix, n, config or self.config)

    def neighbours(self, text: str, n: int = 10, *, words: bool = False) -> list[Neighbour]:
        """The nearest known queries, or with `words` the nearest words to a word."""
        query = normalise_query(text)
        if words:
            vocabulary, vectors = self.model.vocabulary, self.model.word_vectors()
            if query not in vocabulary:
                raise InputError(f"{text!r}: not one word of the model's vocabulary")
            vector, first = vectors[vocabulary.id(query)], len(SPECIAL)
            nearest = _nearest(vocabulary.words[first:], vectors[first:], vector, n + 1)
            return [neighbour for neighbour in nearest if neighbour.text != query][:n]
        if not query:
            raise InputError(f"{text!r}: has no word")
        queries = [known for known in self.guard.tables.queries if known != query]
        if not queries:
            raise InputError("the model folder has no queries to compare with; try `words`")
        return _nearest(queries, self.query_vectors(queries), self.query_vectors([query])[0], n)

    def word_vectors(self) -> Floats:
        """The output vectors of all words (V, d_e), in the order of `model.vocabulary.words`."""
        return self.model.word_vectors()

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The vectors of queries (queries, size); that of a query without a word is zero."""
        encoder = self._predictor.encoder
        texts = [normalise_query(query) for query in queries]
        distinct = sorted({*texts} - {""}, key=lambda text: (text.count(" "), text))
        parts = [
            encoder.query_vectors(distinct[start : start + _QUERIES_TOGETHER])
            for start in range(0, len(distinct), _QUERIES_TOGETHER)
        ]
        row = {text: number for number, text in enumerate(distinct)}
        table = np.concatenate([*parts, np.zeros((1, encoder.query_size), dtype=np.float32)])
        return np.asarray(table[[row.get(text, -1) for text in texts]], dtype=np.float32)


class HREDSuggester(NeuralSuggester):
    """A trained HRED, which explains itself by its session update gates."""

    kind = KIND
    model: HREDModel

    @staticmethod
    def open_model(artifact: Artifact) -> HREDModel:
        """Open the network of a model folder."""
        return HREDModel.from_pretrained(artifact)

    @property
    def network(self) -> HREDNetwork:
        """Its weights and equations."""
        return self.model.network

    def explain(self, context: Sequence[str]) -> list[QueryWeight]:
        """How much each query of the context counts (the paper's Figure 7)."""
        return query_weights(context, self.update_gates(context))

    def update_gates(self, context: Sequence[str]) -> Floats:
        """The session update gates `u_m` of every query that has a word (queries, d_s)."""
        return self.update_gates_many([context])[0]

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[Floats]:
        """What `update_gates` gives for each context, computed together.

        Queries before the last ones that the model reads have gates of zero.
        """
        encoder = self._predictor.encoder
        sessions = [encoder.normalised(context) for context in contexts]
        read = self.model.update_gates([encoder.read_part(session) for session in sessions])
        return [
            np.pad(gates, ((len(session) - len(gates), 0), (0, 0)))
            for session, gates in zip(sessions, read, strict=True)
        ]


class TransformerSuggester(NeuralSuggester):
    """A trained session Transformer, which explains itself by its attention."""

    kind = TRANSFORMER
    model: TransformerModel

    @staticmethod
    def open_model(artifact: Artifact) -> TransformerModel:
        """Open the network of a model folder."""
        return TransformerModel.from_pretrained(artifact)

    def explain(self, context: Sequence[str]) -> list[QueryWeight]:
        """How much the network attends to each query of the context, as shares of 1."""
        encoder = self._predictor.encoder
        texts = encoder.normalised(context)
        [shares] = self.model.attention([encoder.read_part(texts)])
        left = [0.0] * (len(texts) - len(shares)) + shares.tolist()
        weights = []
        for query in context:
            share = left.pop(0) if normalise_query(query) else 0.0
            weights.append(QueryWeight(query, share, share))
        return weights
