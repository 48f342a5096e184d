"""The re-ranker: another model's suggestions in the order learnt from accepted suggestions."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import (
    Artifact,
    further_entries,
    open_artifact,
    publish,
    read_artifact,
)
from nextquery.artifacts.arrays import load_array
from nextquery.errors import ArtifactError
from nextquery.feedback.events import ListedSuggestion, source_of
from nextquery.guard.guard import Guard
from nextquery.inference.trees import Trees
from nextquery.records import Known, ScoredQuery, Suggestion
from nextquery.suggesters.background import load_record
from nextquery.suggesters.base import (
    Adjustable,
    Completer,
    Decoding,
    ListMaker,
    Suggester,
    SuggestOptions,
)
from nextquery.suggesters.count_suggester import clean
from nextquery.suggesters.loading import load_artifact
from nextquery.text.vectors import cosine, trigrams

PRIOR = 10.0
"""A rate is drawn towards the more general one by this many exposures."""


@dataclass(frozen=True)
class TakenRates:
    """How often each fingerprint was examined and accepted, in the order of fingerprints."""

    keys: NDArray[np.uint64]
    exposures: NDArray[np.float64]
    taken: NDArray[np.float64]
    overall: float
    """The rate of all suggestions."""

    def suggestion(self, text: str) -> float:
        """The rate of a suggestion after any query, drawn towards that of all."""
        exposed, taken = self._find(fingerprint("", text))
        return (taken + PRIOR * self.overall) / (exposed + PRIOR)

    def pair(self, query: str, text: str) -> float:
        """The rate of a suggestion after a query, drawn towards that after any."""
        exposed, taken = self._find(fingerprint(query, text))
        return (taken + PRIOR * self.suggestion(text)) / (exposed + PRIOR)

    def exposed(self, query: str, text: str) -> float:
        """How often a suggestion was looked at after a query."""
        return self._find(fingerprint(query, text))[0]

    def _find(self, key: int) -> tuple[float, float]:
        index = int(np.searchsorted(self.keys, np.uint64(key)))
        if index == len(self.keys) or int(self.keys[index]) != key:
            return 0.0, 0.0
        return float(self.exposures[index]), float(self.taken[index])

    def check(self) -> None:
        """Refuse tables that do not fit together."""
        if not len(self.keys) == len(self.exposures) == len(self.taken):
            raise ArtifactError("its rates have different lengths")
        numbers = np.concatenate([self.exposures, self.taken, [self.overall]])
        if not np.isfinite(numbers).all() or (numbers < 0).any() or self.overall <= 0:
            raise ArtifactError("its rates are not counts")


def fingerprint(query: str, text: str) -> int:
    """A fingerprint of 64 bits; an empty query means any."""
    digest = hashlib.blake2b(f"{query}\0{text}".encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


RECENT = 3
"""Similarity is measured to this many most recent queries."""

FEATURES = (
    "rank",
    "score",
    "score_gap",
    "synthetic",
    "characters",
    "words",
    *(f"similarity_{back}" for back in range(1, RECENT + 1)),
    "new_words",
    "taken_after_query",
    "taken_at_all",
    "exposed",
)


def list_features(
    session: Sequence[str], candidates: Sequence[ListedSuggestion], rates: TakenRates
) -> NDArray[np.float64]:
    """One row per candidate, in the model's own order, one column per feature.

    The queries of the session are normalised.
    """
    recent = [trigrams(query) for query in reversed(session[-RECENT:])]
    last = session[-1] if session else ""
    last_words = set(last.split())
    best = candidates[0].score if candidates else 0.0
    rows = []
    for rank, candidate in enumerate(candidates):
        runs = trigrams(candidate.text)
        words = candidate.text.split()
        similar = [cosine(runs, query) for query in recent]
        rows.append(
            [
                rank,
                candidate.score,
                best - candidate.score,
                candidate.source == "synthetic",
                len(candidate.text),
                len(words),
                *similar,
                *[0.0] * (RECENT - len(similar)),
                sum(word not in last_words for word in words),
                math.log(rates.pair(last, candidate.text) / rates.overall),
                math.log(rates.suggestion(candidate.text) / rates.overall),
                rates.exposed(last, candidate.text),
            ]
        )
    return np.array(rows, dtype=np.float64).reshape(-1, len(FEATURES))


KIND = "reranked"
BASE = "base"
POOL = 10
"""Number of the base model's suggestions that are ordered; more if more are requested."""
TIE = 1e-9
"""What each rank in the base model's order costs, so that equal scores keep that order."""


class Reranker:
    """A base model with re-ranked lists."""

    kind = KIND

    def __init__(
        self, artifact: Artifact, base: Suggester, guard: Guard, trees: Trees, rates: TakenRates
    ) -> None:
        self.guard = guard
        self.base = base
        self.enabled = bool(artifact.entry("enabled"))
        """Whether the order of lists is changed; the guard of feedback can switch it off."""
        self.specificity = (
            base.config.specificity
            if isinstance(base, Decoding)
            else cast("Adjustable", base).specificity
        )
        self._maker = ListMaker(base)
        self._artifact = artifact
        self._trees = trees
        self._rates = rates

    @classmethod
    def load(cls, folder: Path | Artifact, guard: Guard) -> "Reranker":
        """Open a folder that training published."""
        return read_artifact(folder, lambda artifact: cls._read(artifact, guard), KIND)

    @classmethod
    def _read(cls, artifact: Artifact, guard: Guard) -> "Reranker":
        inner = open_artifact(Path(artifact.folder.root) / BASE, verify=artifact.verified)
        if inner.kind == KIND:
            raise ArtifactError(f"{artifact.path}: re-ranks a re-ranker; make it from its base")
        if list(artifact.entry("features")) != list(FEATURES):
            raise ArtifactError(f"{artifact.path}: was trained on other features; train it again")
        trees = load_record(artifact, "trees", Trees)
        keys, exposures, taken, overall = (
            load_array(artifact, f"rates_{name}.npy", kinds)
            for name, kinds in (("keys", "u"), ("exposures", "f"), ("taken", "f"), ("overall", "f"))
        )
        if len(overall) != 1:
            raise ArtifactError(f"{artifact.path}: its rates have no overall rate; make it again")
        rates = TakenRates(keys, exposures, taken, float(overall[0]))

        def check() -> None:
            trees.check(len(FEATURES))
            rates.check()

        artifact.check_once("contents", check)
        return cls(artifact, load_artifact(inner, guard), guard, trees, rates)

    def save(self, path: Path) -> None:
        """Publish a copy of the folder."""
        self._publish(path, further_entries(self._artifact.manifest))

    def save_switched(self, path: Path, *, enabled: bool, reason: str) -> None:
        """Publish a copy that changes lists or does not, and says why."""
        entries = further_entries(self._artifact.manifest)
        self._publish(path, {**entries, "enabled": enabled, "switched": reason})

    def _publish(self, path: Path, entries: dict[str, Any]) -> None:
        with publish(path, KIND, entries) as folder:
            self._artifact.copy_files(folder, self._artifact.manifest["files"])

    def suggest(
        self,
        context: Sequence[str],
        n: int = 5,
        *,
        specificity: float | None = None,
        diversity: float = 0.0,
        known: Known | None = None,
    ) -> list[Suggestion]:
        """At most `n` suggestions, those first that visitors are likelier to accept."""
        length = max(n, POOL) if n > 0 and self.enabled else n
        options = SuggestOptions(length, diversity, specificity, known)
        [pool] = self._maker.lists([context], options)
        return self.reorder(context, pool)[:n] if self.enabled else pool

    def reorder(self, context: Sequence[str], pool: Sequence[Suggestion]) -> list[Suggestion]:
        """The same suggestions in the order of the trees, ties in the order they have.

        Scores become those of the trees: within one list the higher is the better.
        """
        candidates = [
            ListedSuggestion(item.text, source_of(item.source), self.base.kind, item.score)
            for item in pool
        ]
        if not candidates:
            return []
        values = self._trees.scores(list_features(clean(context), candidates, self._rates))
        values -= TIE * np.arange(len(values))
        order = np.argsort(-values, kind="stable")
        return [replace(pool[index], score=float(values[index])) for index in order]

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The base model's likelihoods."""
        return self.base.score(context, candidates)

    def complete(self, context: Sequence[str], prefix: str, n: int = 5) -> list[Suggestion]:
        """The base model's completions."""
        assert isinstance(self.base, Completer), f"{self.base.kind} completes nothing"
        return self.base.complete(context, prefix, n)
