"""HRED under the one protocol, with what it can do beyond it.

Knows the model folder and what a site asks; how it is answered is `inference`'s business.
"""

from collections.abc import Sequence
from pathlib import Path

from nextquery.artifacts import Artifact, further_entries, publish, read_artifact
from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.inference import nearest_neighbours
from nextquery.inference.contexts import ContextLimits, ContextState
from nextquery.inference.explanation import query_weights, update_gates_many
from nextquery.inference.nearest_neighbours import Floats
from nextquery.inference.network.network import Network
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.model.files import KIND
from nextquery.records import Neighbour, QueryWeight, ScoredQuery, Suggestion


class HREDSuggester:
    """A trained HRED; several threads may ask it at once."""

    kind = KIND

    def __init__(self, artifact: Artifact, predictor: Predictor, config: DecodeConfig) -> None:
        self.config = config
        self.guard = predictor.guard
        self.model = predictor.model
        self._artifact = artifact
        self._predictor = predictor

    @classmethod
    def load(
        cls, folder: Path | Artifact, guard: Guard, config: DecodeConfig | None = None
    ) -> "HREDSuggester":
        """Open a model folder behind its guard."""

        def read(artifact: Artifact) -> "HREDSuggester":
            model = Network.from_pretrained(artifact)
            limits = ContextLimits.from_manifest(artifact.manifest)
            return cls(artifact, Predictor(model, guard, limits), config or DecodeConfig())

        suggester = read_artifact(folder, read, KIND)
        suggester.prepare()
        return suggester

    @property
    def limits(self) -> ContextLimits:
        """How much of a session is read."""
        return self._predictor.encoder.limits

    def prepare(self) -> None:
        """Make now what the first suggestion would have to wait for."""
        self._predictor.decoder(self.config.output_mode(len(self.model.vocabulary)))

    def save(self, path: Path) -> None:
        """Publish a copy of the model folder."""
        with publish(path, KIND, further_entries(self._artifact.manifest)) as folder:
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

    def start(self) -> ContextState:
        """The state of a session without any query."""
        return self._predictor.encoder.start()

    def extend(self, state: ContextState, query: str) -> ContextState:
        """The state after one more query, which alone is encoded."""
        return self._predictor.encoder.extend(state, query)

    def encode(self, context: Sequence[str]) -> ContextState:
        """The state of a whole session; what a state holds follows from its `queries`."""
        return self._predictor.encoder.encode(context)

    def encode_many(self, contexts: Sequence[Sequence[str]]) -> list[ContextState]:
        """What `encode` gives for each context, computed together."""
        return self._predictor.encoder.encode_many(contexts)

    def suggest_after(
        self, states: Sequence[ContextState], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[list[Suggestion]]:
        """What `suggest_many` gives, for sessions whose states are known."""
        if _asks_for_none(n):
            return [[] for _ in states]
        return self._predictor.suggest_many(states, n, config or self.config)

    def score_after(
        self, states: Sequence[ContextState], candidates: Sequence[Sequence[str]]
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
        return self._predictor.usefulness.exists

    def usefulness_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """P(useful | query, session) of each context's candidates; refused without a head."""
        states = self._predictor.encoder.encode_many(contexts)
        return self._predictor.usefulness.probabilities(states, candidates)

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

    def explain(self, context: Sequence[str]) -> list[QueryWeight]:
        """How much each query of the context counts (the paper's Figure 7)."""
        return query_weights(context, self.update_gates(context))

    def update_gates(self, context: Sequence[str]) -> Floats:
        """The session update gates of every query that has a word (queries, d_s)."""
        return self.update_gates_many([context])[0]

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[Floats]:
        """What `update_gates` gives for each context, computed together."""
        return update_gates_many(self.model, self._predictor.encoder, contexts)

    def neighbours(self, text: str, n: int = 10, *, words: bool = False) -> list[Neighbour]:
        """The nearest known queries, or with `words` the nearest words to a word."""
        if words:
            return nearest_neighbours.nearest_words(self.model, text, n)
        known = self.guard.tables.queries.keys()
        return nearest_neighbours.nearest_queries(self._predictor.encoder, known, text, n)

    def word_vectors(self) -> Floats:
        """The output vectors of all words (V, d_e), in the order of `model.vocabulary.words`."""
        return nearest_neighbours.word_vectors(self.model)

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        """The vectors of queries (queries, d_h)."""
        return nearest_neighbours.query_vectors(self._predictor.encoder, queries)


def _asks_for_none(n: int) -> bool:
    """Whether no suggestion is wanted; a negative number is refused."""
    if n < 0:
        raise InputError(f"n = {n}: must be at least 0")
    return n == 0
