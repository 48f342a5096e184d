"""A blend: a trained model's suggestions and what people typed next, in one list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nextquery.artifacts import (
    MANIFEST,
    Artifact,
    check_target,
    open_artifact,
    publish,
    read_artifact,
)
from nextquery.config import Section
from nextquery.errors import ArtifactError, InputError
from nextquery.guard.fingerprints import Keys
from nextquery.guard.guard import Guard
from nextquery.guard.tables import FOLDER as GUARD
from nextquery.inference.gate import ListGate
from nextquery.inference.lists import Priors, appended, choose, rank
from nextquery.inference.rescoring import NO_HEAD, rank_by_use
from nextquery.inference.search import FinishedQuery
from nextquery.inference.settings import DecodeConfig
from nextquery.normalise import normalise_query
from nextquery.records import QueryWeight, ScoredQuery, Suggestion
from nextquery.suggesters.base import (
    Completer,
    Explainer,
    Gated,
    SessionSuggester,
    State,
    Suggester,
    Trained,
    UsefulnessJudge,
    asks_for_none,
)
from nextquery.suggesters.count_suggester import CountSuggester, clean
from nextquery.suggesters.loading import load, load_artifact
from nextquery.suggesters.returning import Returning

if TYPE_CHECKING:
    from nextquery.logs.data_folder import PreparedData

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STEPS = 100
CASES_OF_ALL = 20.0
"""A row of weights starts from those of all cases, counted as this number of its own cases."""


@dataclass(frozen=True)
class Mixture:
    """The weights of a mixture, whose first member always has candidates."""

    weights: Floats
    """(rows, members): a row for each combination of further members, and one for no session."""

    @classmethod
    def of(cls, learnt: Floats) -> Mixture:
        """The mixture of learnt rows, with that of no session after them."""
        members = learnt.shape[1]
        return cls(np.concatenate([learnt, np.full((1, members), 1.0 / members)]))

    def row(self, queries: Sequence[str], have_candidates: Sequence[bool]) -> int:
        """The row of a session in which these of the further members have candidates.

        >>> mixture = Mixture.of(np.full((4, 3), 1 / 3))
        >>> mixture.row(["a"], [True, False]), mixture.row(["a"], [True, True])
        (1, 3)
        >>> mixture.row([], [True, False])
        4
        """
        if not queries:
            return len(self.weights) - 1
        return sum(
            1 << index for index, has_candidates in enumerate(have_candidates) if has_candidates
        )

    def log(self, row: int, logs: Floats) -> Floats:
        """The mixture's log-probabilities (n,) from those of the members (members, n).

        >>> mixture = Mixture(np.array([[0.9, 0.1], [0.5, 0.5]]))
        >>> np.exp(mixture.log(1, np.log([[0.1], [0.3]]))).round(3)
        array([0.2])
        """
        with np.errstate(divide="ignore"):  # a member without weight
            weighted = np.log(self.weights[row])[:, None] + logs
        return np.asarray(np.logaddexp.reduce(weighted, axis=0))


def fit_mixture(rows: Integers, logs: Floats) -> Mixture:
    """The weights that make what came next likeliest, by expectation maximisation.

    `rows` (cases,) are rows of the mixture, `logs` (cases, members) the log-likelihood of what came
    next by each member. Cases of all rows together give the weights that each row begins with.
    """
    members = logs.shape[1]
    common = _maximised(logs, np.full(members, 1.0 / members), 0.0)
    weights = [
        _maximised(logs[rows == row], common, CASES_OF_ALL) for row in range(1 << (members - 1))
    ]
    return Mixture.of(np.array(weights))


def _maximised(logs: Floats, start: Floats, prior_cases: float) -> Floats:
    """The weights (members,) of some cases, `start` counting as `prior_cases` of them."""
    if not len(logs) and not prior_cases:
        return start
    weights = start
    for _ in range(STEPS):
        with np.errstate(divide="ignore"):
            joint = np.log(weights) + logs
        shares = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
        weights = (shares.sum(axis=0) + prior_cases * start) / (len(logs) + prior_cases)
    return weights


class Parts:
    """A trained model, the count models of the blend, and the weights of all."""

    def __init__(
        self, trained: Trained[Any], members: Sequence[Suggester], mixture: Mixture
    ) -> None:
        self._members = tuple(members)
        self.mixture = mixture
        words = len(trained.model.vocabulary)
        self._unknown = float(np.log(words))
        query_counts = trained.guard.tables.queries
        self._priors = Priors(lambda texts: trained.score((), texts), words, query_counts)

    def offers(self, queries: Sequence[str], n: int) -> list[list[Suggestion]]:
        """What each count model suggests after a session."""
        return [member.suggest(queries, n) for member in self._members]

    def completions(self, context: Sequence[str], prefix: str, n: int) -> list[Suggestion]:
        """How the count models finish what is typed."""
        able = (member for member in self._members if isinstance(member, Completer))
        return [completion for member in able for completion in member.complete(context, prefix, n)]

    def row(self, queries: Sequence[str]) -> int:
        """The row of weights of a session: who has anything to suggest."""
        return self.mixture.row(queries, [bool(offered) for offered in self.offers(queries, 1)])

    def logs(self, queries: Sequence[str], scored: Sequence[ScoredQuery]) -> Floats:
        """The log-likelihoods (parts, n) of queries that the trained model scored.

        An unknown word is one of many that the unknown symbol represents, as in the priors.
        """
        log_likelihoods = [
            query.log_likelihood - self._unknown * len(query.unknown) for query in scored
        ]
        texts = [query.text for query in scored]
        return np.array([log_likelihoods, *self._counted(queries, texts)])

    def log(self, queries: Sequence[str], row: int, scored: Sequence[ScoredQuery]) -> Floats:
        """The mixture's log-likelihoods (n,) of queries that the trained model scored."""
        return self.mixture.log(row, self.logs(queries, scored))

    def trained_priors(self, texts: Iterable[str]) -> dict[str, float]:
        """The trained model's log-likelihood of each text without a session."""
        return self._priors.of(texts)

    def log_priors(self, texts: Sequence[str]) -> dict[str, float]:
        """The mixture's log-likelihood of each text without a session."""
        priors = self.trained_priors(texts)
        logs = np.array([[priors[text] for text in texts], *self._counted((), texts)])
        return dict(zip(texts, self.mixture.log(self.row(()), logs).tolist(), strict=True))

    def _counted(self, queries: Sequence[str], texts: Sequence[str]) -> list[list[float]]:
        return [
            [query.log_likelihood for query in member.score(queries, texts)]
            for member in self._members
        ]


KIND = "blend"
BASE, MEMBERS = "base", "members"
WRITTEN = 10
"""Number of the trained model's suggestions that are ranked; more if more are requested."""
GATED = 20
"""The same where the list gate leaves some out."""
OFFERED = 20
"""The same of each count model."""


@dataclass(frozen=True)
class BlendState(Generic[State]):
    """A session so far: its normalised queries, and the trained model's state after them."""

    queries: tuple[str, ...]
    trained: State


class Blend(SessionSuggester[BlendState[Any]]):
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
        self._gate = ListGate(self.guard, trained.query_vectors, specificity)

    @classmethod
    def load(cls, folder: Path | Artifact, guard: Guard) -> Blend:
        """Open a folder that `publish_blend` made."""
        return read_artifact(folder, lambda artifact: cls._read(artifact, guard), KIND)

    @classmethod
    def _read(cls, artifact: Artifact, guard: Guard) -> Blend:
        root, verify = Path(artifact.folder.root), artifact.verified
        trained = load_artifact(open_artifact(root / BASE, verify=verify), guard)
        if not isinstance(trained, Trained):
            raise ArtifactError(f"{artifact.path}: its base is not a trained model; make it again")
        count = len(artifact.entry("members"))
        members = [
            load_artifact(open_artifact(root / MEMBERS / str(index), verify=verify), guard)
            for index in range(count)
        ]
        try:
            weights = np.array(artifact.entry("weights"), np.float64)
            specificity = float(artifact.entry("specificity"))
        except (TypeError, ValueError):
            weights, specificity = np.empty(0), 0.0
        fits = weights.shape == ((1 << count) + 1, count + 1) and 0 <= specificity <= 1
        if not fits or (weights < 0).any() or not np.allclose(weights.sum(axis=1), 1.0):
            raise ArtifactError(f"{artifact.path}: its weights do not fit; make it again")
        blend = ExplainedBlend if isinstance(trained, Explainer) else Blend
        blend = GatedBlend if isinstance(trained, Gated) else blend
        return blend(artifact, trained, members, Mixture(weights), specificity)

    def weights(self) -> dict[str, dict[str, float]]:
        """The weight of each part, by which count models have candidates for a session."""
        members: list[str] = self._artifact.entry("members")
        names = [self._artifact.entry("base"), *members]
        by_members = {}
        *rows, _ = self.parts.mixture.weights.tolist()
        for row, weights in enumerate(rows):
            with_candidates = [name for index, name in enumerate(members) if row >> index & 1]
            label = " and ".join(with_candidates) or "no count model"
            label += " have candidates" if len(with_candidates) > 1 else " has candidates"
            by_members[label] = dict(zip(names, weights, strict=True))
        return by_members

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
        if asks_for_none(n):
            return [[] for _ in states]
        config = config or self.config
        plain = config.model_copy(update={"diversity": 0.0})
        trained = [state.trained for state in states]
        gated = config.quality and self._gate.exists
        most = GATED if gated else WRITTEN
        written = self._trained.suggest_after(trained, max(n, most), config=plain)
        offered = [self.parts.offers(state.queries, max(n, OFFERED)) for state in states]
        pools = [
            _pool(generated, offers, config)
            for generated, offers in zip(written, offered, strict=True)
        ]
        scores = self._scores(trained, pools, written)
        texts = list(dict.fromkeys(text for pool in pools for text in pool))
        priors = self.parts.log_priors(texts) if config.specificity or gated else {}
        return [
            self._list(state.queries, offers, pool, scored, n, config, priors, gated=gated)
            for state, offers, pool, scored in zip(states, offered, pools, scores, strict=True)
        ]

    def _scores(
        self,
        states: Sequence[Any],
        pools: Sequence[Mapping[str, str]],
        written: Sequence[Sequence[Suggestion]],
    ) -> list[list[ScoredQuery]]:
        """The trained model's scores of each pool; what a list says already is not asked again."""
        known_scores = [
            {
                suggestion.text: suggestion.log_likelihood
                for suggestion in suggestions
                if suggestion.log_likelihood is not None
            }
            for suggestions in written
        ]
        asked = [
            [text for text in pool if text not in known]
            for pool, known in zip(pools, known_scores, strict=True)
        ]
        scores = self._trained.score_after(states, asked)
        return [
            [*(ScoredQuery(text, known[text], len(text.split()) + 1) for text in known), *rescored]
            for known, rescored in zip(known_scores, scores, strict=True)
        ]

    def _list(
        self,
        queries: tuple[str, ...],
        offers: Sequence[Sequence[Suggestion]],
        pool: dict[str, str],
        scored: Sequence[ScoredQuery],
        n: int,
        config: DecodeConfig,
        priors: Mapping[str, float],
        *,
        gated: bool,
    ) -> list[Suggestion]:
        """The best of a pool, which says of each text where it comes from.

        `priors` are the likelihoods of the texts without a session; `gated`: the list gate chooses.
        """
        row = self.parts.mixture.row(queries, [bool(suggestions) for suggestions in offers])
        values = self.parts.log(queries, row, scored).tolist()
        finished = [
            FinishedQuery(query.text, value, query.words)
            for query, value in zip(scored, values, strict=True)
        ]
        ranked = rank(finished, config, priors, self.guard.tables.queries)
        if config.usefulness:
            [useful] = self.usefulness_many([queries], [[query.text for query in ranked]])
            ranked = rank_by_use(ranked, useful, config.usefulness, config.length_normalised)
        if config.known == "prefer":
            own_pairs = self.guard.own_text(queries).pairs
            seen = {query.text for query in ranked if self._has_seen_pairs(query.text, own_pairs)}
            fine = [query for query in ranked if query.text in seen]
            ranked = appended(fine, [query for query in ranked if query.text not in seen], config)
        if gated:
            followers = {suggestion.text for some in offers for suggestion in some}
            frequent = self.parts.trained_priors(
                text for text in pool if text in self._gate.frequent
            )
            ranked = self._gate.select(ranked, queries, config, followers, frequent)
        return choose(ranked, n, config, pool.__getitem__, self._trained.query_vectors)

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

    def _has_seen_pairs(self, text: str, own_pairs: Keys) -> bool:
        """Whether its words have stood side by side, in the log or in the session's pairs."""
        if text in self.guard.tables.queries:
            return True
        keys = self.guard.word_keys(text.split())
        return bool(self.guard.seen_pairs(keys[:-1], keys[1:], own_pairs).all())

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
        query_counts = self.guard.tables.queries
        return [
            # What enough people typed can be suggested, whatever the trained model's words are.
            ScoredQuery(query.text, value, query.words, unknown)
            for query, value in zip(scored, values, strict=True)
            for unknown in [() if normalise_query(query.text) in query_counts else query.unknown]
        ]

    def complete(
        self, context: Sequence[str], prefix: str, n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        """At most `n` queries that begin with `prefix`, likeliest in the mixture first."""
        if asks_for_none(n):
            return []
        if not normalise_query(prefix):
            return self.suggest(context, n, config=config)
        config = config or self.config
        completions = self._trained.complete(context, prefix, max(n, WRITTEN), config=config)
        completions += self.parts.completions(context, prefix, max(n, WRITTEN))
        pool = {completion.text: completion.source for completion in reversed(completions)}
        queries, (scored,) = clean(context), self._trained.score_many([context], [list(pool)])
        without = {"specificity": 0.0, "diversity": 0.0, "usefulness": 0.0}
        plain = config.model_copy(update=without)
        offers = self.parts.offers(queries, 1)
        return self._list(queries, offers, pool, scored, n, plain, {}, gated=False)


class ExplainedBlend(Blend):
    """A blend whose trained model explains itself."""

    def explain(self, context: Sequence[str]) -> list[QueryWeight]:
        """How much each query of the context counts for the trained model."""
        assert isinstance(self._trained, Explainer)
        return self._trained.explain(context)


class GatedBlend(ExplainedBlend):
    """A blend whose trained model has session update gates."""

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """The trained model's update gate of each query of each context: (queries, d_s)."""
        assert isinstance(self._trained, Gated)
        return self._trained.update_gates_many(contexts)


def _pool(
    written: Sequence[Suggestion],
    offered: Sequence[Sequence[Suggestion]],
    config: DecodeConfig,
) -> dict[str, str]:
    """The candidates of a list, and where each comes from: counts can say more than a generator."""
    pool = {suggestion.text: suggestion.source for suggestion in written}
    for suggestion in (suggestion for list_ in reversed(offered) for suggestion in list_):
        if config.min_words <= len(suggestion.text.split()) <= config.max_words:
            pool[suggestion.text] = suggestion.source
    return pool


MOST_MEMBERS = 4
"""Each further one doubles the rows of weights to be learnt."""
TOGETHER = 32


class BlendSettings(Section):
    """How a blend is made."""

    specificity: float = Field(default=0.25, ge=0.0, le=1.0)
    """How much of its log-likelihood without a session a suggestion loses, unless a call asks
    otherwise."""
    cases: int = Field(default=2000, ge=1)
    """Number of validation sessions, drawn at random, that decide the weights."""
    seed: int = Field(default=0, ge=0)
    """Decides which."""


def make_blend(
    base: Path,
    members: Sequence[Path],
    data: PreparedData,
    out: Path,
    settings: BlendSettings | None = None,
    returning: Path | None = None,
) -> Blend:
    """Learn the weights on the validation sessions of `data`, and publish the blend at `out`.

    `returning` is a model of returning visitors, which the folder then includes for a service.
    """
    settings = settings or BlendSettings()
    check_target(out, KIND)
    guard = Guard.open(base)
    trained, *count_models = (
        load_artifact(open_artifact(path), guard) for path in (base, *members)
    )
    if not isinstance(trained, Trained):
        raise InputError(f"{base}: of kind {trained.kind!r}; a blend has a trained model first")
    for path, other in zip(members, count_models, strict=True):
        if not isinstance(other, CountSuggester):
            raise InputError(f"{path}: of kind {other.kind!r}; only the first is not a count model")
    if not 1 <= len(members) <= MOST_MEMBERS:
        raise InputError(f"`members`: a blend has 1 to {MOST_MEMBERS} count models")
    mixture = learn_mixture(trained, count_models, _cases(data, settings))
    publish_blend(out, base, members, mixture, settings, returning)
    blend = load(out)
    assert isinstance(blend, Blend)
    return blend


Case = tuple[tuple[str, ...], str]


def _cases(data: PreparedData, settings: BlendSettings) -> list[Case]:
    """Contexts of validation sessions and what was typed next."""
    sessions = [session.queries for session in data.sessions("validation")]
    data.artifact.check_current()
    if not sessions:
        raise InputError(
            f"{data.path}: no validation sessions, on which a blend's weights are learnt"
        )
    drawn = np.random.default_rng(settings.seed).permutation(len(sessions))[: settings.cases]
    return [(sessions[index][:-1], sessions[index][-1]) for index in np.sort(drawn)]


def learn_mixture(
    trained: Trained[Any], members: Sequence[Suggester], cases: Sequence[Case]
) -> Mixture:
    """The weights under which what was typed next is likeliest."""
    nothing = np.zeros((1 << len(members), len(members) + 1))
    parts = Parts(trained, members, Mixture.of(nothing))
    rows, logs = [], []
    for start in range(0, len(cases), TOGETHER):
        part = cases[start : start + TOGETHER]
        contexts = [context for context, _ in part]
        scores = trained.score_many(contexts, [[next_query] for _, next_query in part])
        for context, scored in zip(contexts, scores, strict=True):
            rows.append(parts.row(context))
            logs.append(parts.logs(context, scored)[:, 0])
    return fit_mixture(np.array(rows), np.array(logs))


def publish_blend(
    out: Path,
    base: Path,
    members: Sequence[Path],
    mixture: Mixture,
    settings: BlendSettings,
    returning: Path | None = None,
) -> None:
    """Write the folder of a blend whose weights are known."""
    first, *member_artifacts = artifacts = [open_artifact(path) for path in (base, *members)]
    entries: dict[str, Any] = {
        "base": first.kind,
        "members": [artifact.kind for artifact in member_artifacts],
        "weights": mixture.weights.tolist(),
        "specificity": settings.specificity,
        "settings": settings.model_dump(mode="json"),
    }
    if "data" in first.manifest:
        entries["data"] = first.manifest["data"]
    with publish(out, KIND, entries) as folder:
        first.copy_files(folder, first.files(GUARD))
        folders = [BASE, *(f"{MEMBERS}/{index}" for index in range(len(member_artifacts)))]
        if returning is not None:
            folders.append(Returning.kind)
            artifacts.append(open_artifact(returning, Returning.kind))
        for name, artifact in zip(folders, artifacts, strict=True):
            artifact.copy_files(folder / name, artifact.manifest["files"])
            (folder / name / MANIFEST).write_bytes(artifact.manifest_bytes)
