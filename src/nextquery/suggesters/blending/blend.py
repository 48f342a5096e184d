"""A blend: what a trained model writes and what people typed next, in one list.

    base/        the whole folder of the trained model
    members/N/   those of the count models
    guard/       the trained model's guard, which stands before all of them

The candidates are the trained model's list and what the count models offer. Each is valued by the
mixture of everybody's probabilities (`mixture.py`), less `specificity` times the same without a
session, and known queries are preferred, as the decode config says. Knows what its parts can do;
knows nothing of how they do it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact, further_entries, open_artifact, publish, read_artifact
from nextquery.errors import ArtifactError, InputError
from nextquery.guard.fingerprints import Keys
from nextquery.guard.guard import Guard
from nextquery.inference.beam import FinishedQuery
from nextquery.inference.lists.selection import choose
from nextquery.inference.lists.specificity import behind, rank
from nextquery.inference.settings import DecodeConfig
from nextquery.inference.usefulness_head import NO_HEAD, rank_by_use
from nextquery.normalise import normalise_query
from nextquery.records import QueryWeight, ScoredQuery, Suggestion
from nextquery.suggesters.base import State, Suggester, Trained, UsefulnessJudge
from nextquery.suggesters.blending.blend_parts import Parts
from nextquery.suggesters.blending.mixture import Mixture
from nextquery.suggesters.count_suggester import clean
from nextquery.suggesters.loading import load_artifact

KIND = "blend"
BASE, MEMBERS = "base", "members"
WRITTEN = 10
"""So many of the trained model's suggestions are looked at, or as many as are asked for."""
OFFERED = 20
"""The same of each count model."""


@dataclass(frozen=True)
class BlendState(Generic[State]):
    """A session so far: its normalised queries, and the trained model's state after them."""

    queries: tuple[str, ...]
    trained: State


class Blend:
    """A trained model and count models as one."""

    kind = KIND

    def __init__(
        self,
        artifact: Artifact,
        trained: Trained[Any],
        members: Sequence[Suggester],
        mixture: Mixture,
        specificity: float,
    ) -> None:
        self.guard = trained.guard
        self.config = trained.config.model_copy(update={"specificity": specificity})
        self.parts = Parts(trained, members, mixture)
        self._artifact = artifact
        self._trained = trained

    @classmethod
    def load(cls, folder: Path | Artifact, guard: Guard) -> "Blend":
        """Open a folder that `publish_blend` made."""
        return read_artifact(folder, lambda artifact: cls._read(artifact, guard), KIND)

    @classmethod
    def _read(cls, artifact: Artifact, guard: Guard) -> "Blend":
        root, verify = Path(artifact.folder.root), artifact.verified
        trained = load_artifact(open_artifact(root / BASE, verify=verify), guard)
        if not isinstance(trained, Trained):
            raise ArtifactError(f"{artifact.path}: its base is no trained model; make it again")
        count = len(artifact.entry("members"))
        members = [
            load_artifact(open_artifact(root / MEMBERS / str(place), verify=verify), guard)
            for place in range(count)
        ]
        mixture, specificity = _stored(artifact, count)
        return cls(artifact, trained, members, mixture, specificity)

    def weights(self) -> dict[str, dict[str, float]]:
        """The weight of each part, by which count models have candidates for a session."""
        members: list[str] = self._artifact.entry("members")
        names = [self._artifact.entry("base"), *members]
        found = {}
        *rows, _ = self.parts.mixture.weights.tolist()
        for row, weights in enumerate(rows):
            speaking = [name for place, name in enumerate(members) if row >> place & 1]
            who = " and ".join(speaking) or "no count model"
            who += " have candidates" if len(speaking) > 1 else " has candidates"
            found[who] = dict(zip(names, weights, strict=True))
        return found

    def save(self, path: Path) -> None:
        """Publish a copy of the folder."""
        with publish(path, KIND, further_entries(self._artifact.manifest)) as folder:
            self._artifact.copy_files(folder, self._artifact.manifest["files"])

    def suggest(
        self, context: Sequence[str], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        """At most `n` suggestions, best first; never a query of the context."""
        return self.suggest_many([context], n, config=config)[0]

    def suggest_many(
        self, contexts: Sequence[Sequence[str]], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[list[Suggestion]]:
        """What `suggest` gives for each context."""
        return self.suggest_after(self.encode_many(contexts), n, config=config)

    def encode_many(self, contexts: Sequence[Sequence[str]]) -> list[BlendState[Any]]:
        """The state of each session."""
        states = self._trained.encode_many(contexts)
        return [BlendState(clean(c), state) for c, state in zip(contexts, states, strict=True)]

    def extend(self, state: BlendState[Any], query: str) -> BlendState[Any]:
        """The state after one more query."""
        trained = self._trained.extend(state.trained, query)
        return BlendState((*state.queries, *clean([query])), trained)

    def suggest_after(
        self, states: Sequence[BlendState[Any]], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[list[Suggestion]]:
        """A list for each session whose state is known."""
        if _asks_for_none(n):
            return [[] for _ in states]
        config = config or self.config
        plain = config.model_copy(update={"diversity": 0.0})
        trained = [state.trained for state in states]
        written = self._trained.suggest_after(trained, max(n, WRITTEN), config=plain)
        offered = [self.parts.offers(state.queries, max(n, OFFERED)) for state in states]
        pools = [_pool(own, others, config) for own, others in zip(written, offered, strict=True)]
        scores = self._scores(trained, pools, written)
        texts = list(dict.fromkeys(text for pool in pools for text in pool))
        priors = self.parts.log_priors(texts) if config.specificity else {}
        ask = _Ask(n, config, priors)
        return [
            self._list(state.queries, self._row(state, others), pool, scored, ask)
            for state, others, pool, scored in zip(states, offered, pools, scores, strict=True)
        ]

    def _row(self, state: BlendState[Any], offered: Sequence[Sequence[Suggestion]]) -> int:
        return self.parts.mixture.row(state.queries, [bool(found) for found in offered])

    def _scores(
        self,
        states: Sequence[Any],
        pools: Sequence[Mapping[str, str]],
        written: Sequence[Sequence[Suggestion]],
    ) -> list[list[ScoredQuery]]:
        """The trained model's scores of each pool; what a list says already is not asked again."""
        said = [
            {each.text: each.log_likelihood for each in own if each.log_likelihood is not None}
            for own in written
        ]
        asked = [
            [text for text in pool if text not in own]
            for pool, own in zip(pools, said, strict=True)
        ]
        scores = self._trained.score_after(states, asked)
        return [
            [*(ScoredQuery(text, own[text], len(text.split()) + 1) for text in own), *others]
            for own, others in zip(said, scores, strict=True)
        ]

    def _list(
        self,
        queries: tuple[str, ...],
        row: int,
        pool: dict[str, str],
        scored: Sequence[ScoredQuery],
        ask: "_Ask",
    ) -> list[Suggestion]:
        """The best of a pool, which says of each text where it comes from."""
        config = ask.config
        values = self.parts.log(queries, row, scored).tolist()
        found = [
            FinishedQuery(each.text, value, each.words)
            for each, value in zip(scored, values, strict=True)
        ]
        ranked = rank(found, config, ask.priors, self.guard.tables.queries)
        if config.usefulness:
            [useful] = self.usefulness_many([queries], [[each.text for each in ranked]])
            ranked = rank_by_use(ranked, useful, config.usefulness, config.length_normalised)
        if config.known == "prefer":
            own = self.guard.session_pairs(queries)
            seen = {each.text for each in ranked if self._has_seen_pairs(each.text, own)}
            fine = [each for each in ranked if each.text in seen]
            ranked = behind(fine, [each for each in ranked if each.text not in seen], config)
        return choose(ranked, ask.n, config, pool.__getitem__, self._trained.query_vectors)

    @property
    def judges_usefulness(self) -> bool:
        """Whether the trained model has learnt how likely a query is useful."""
        return isinstance(self._trained, UsefulnessJudge) and self._trained.judges_usefulness

    def usefulness_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """P(useful | query, session) of each context's candidates, by the trained model."""
        if not isinstance(self._trained, UsefulnessJudge):
            raise InputError(NO_HEAD)
        return self._trained.usefulness_many(contexts, candidates)

    def _has_seen_pairs(self, text: str, own: Keys) -> bool:
        """Whether its words have stood side by side, in the log or in the session's `own` pairs."""
        if text in self.guard.tables.queries:
            return True
        keys = self.guard.word_keys(text.split())
        return bool(self.guard.seen_pairs(keys[:-1], keys[1:], own).all())

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The mixture's natural-log likelihood of each candidate, in the given order."""
        return self.score_many([context], [candidates])[0]

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """What `score` gives for each context and its candidates."""
        return self.score_after(self.encode_many(contexts), candidates)

    def score_after(
        self, states: Sequence[BlendState[Any]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The likelihood of each candidate of each session whose state is known."""
        scores = self._trained.score_after([state.trained for state in states], candidates)
        return [
            self._mixed(state.queries, scored) for state, scored in zip(states, scores, strict=True)
        ]

    def _mixed(self, queries: tuple[str, ...], scored: Sequence[ScoredQuery]) -> list[ScoredQuery]:
        if not scored:
            return []
        values = self.parts.log(queries, self.parts.row(queries), scored).tolist()
        known = self.guard.tables.queries
        return [
            # What enough people typed can be suggested, whatever the trained model's words are.
            ScoredQuery(each.text, value, each.words, unknown)
            for each, value in zip(scored, values, strict=True)
            for unknown in [() if normalise_query(each.text) in known else each.unknown]
        ]

    def complete(
        self, context: Sequence[str], prefix: str, n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        """At most `n` queries that begin with `prefix`, likeliest in the mixture first."""
        if _asks_for_none(n):
            return []
        if not normalise_query(prefix):
            return self.suggest(context, n, config=config)
        config = config or self.config
        found = self._trained.complete(context, prefix, max(n, WRITTEN), config=config)
        found += self.parts.completions(context, prefix, max(n, WRITTEN))
        pool = {each.text: each.source for each in reversed(found)}
        queries, (scored,) = clean(context), self._trained.score_many([context], [list(pool)])
        without = {"specificity": 0.0, "diversity": 0.0, "usefulness": 0.0}
        plain = config.model_copy(update=without)
        return self._list(queries, self.parts.row(queries), pool, scored, _Ask(n, plain, {}))

    def explain(self, context: Sequence[str]) -> list[QueryWeight]:
        """How much each query of the context counts for the trained model."""
        return self._trained.explain(context)

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """The trained model's update gate of each query of each context: (queries, d_s)."""
        return self._trained.update_gates_many(contexts)


@dataclass(frozen=True)
class _Ask:
    """How lists are wanted, and the likelihoods of their candidates without a session."""

    n: int
    config: DecodeConfig
    priors: Mapping[str, float]


def _pool(
    written: Sequence[Suggestion],
    offered: Sequence[Sequence[Suggestion]],
    config: DecodeConfig,
) -> dict[str, str]:
    """The candidates of a list, and where each comes from: counts can say more than a generator."""
    pool = {each.text: each.source for each in written}
    for each in (each for list_ in reversed(offered) for each in list_):
        if config.min_words <= len(each.text.split()) <= config.max_words:
            pool[each.text] = each.source
    return pool


def _stored(artifact: Artifact, members: int) -> tuple[Mixture, float]:
    """The weights and the specificity of a folder; such as do not fit are refused."""
    try:
        weights = np.array(artifact.entry("weights"), np.float64)
        specificity = float(artifact.entry("specificity"))
    except (TypeError, ValueError):
        weights, specificity = np.empty(0), 0.0
    fits = weights.shape == ((1 << members) + 1, members + 1) and 0 <= specificity <= 1
    if not fits or (weights < 0).any() or not np.allclose(weights.sum(axis=1), 1.0):
        raise ArtifactError(f"{artifact.path}: its weights do not fit; make it again")
    return Mixture(weights), specificity


def _asks_for_none(n: int) -> bool:
    """Whether no suggestion is wanted; a negative number is refused."""
    if n < 0:
        raise InputError(f"n = {n}: must be at least 0")
    return n == 0
