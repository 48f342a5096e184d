"""The re-ranker: another model's suggestions in the order of what visitors took.

    base/       the whole folder of the model that makes the suggestions
    guard/      that model's guard
    *.npy       trees and rates

Everything but the order of lists is the base model's: scores, completions, the guard. Switched off,
the lists are the base model's, too.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.artifacts import Artifact, further_entries, open_artifact, publish, read_artifact
from nextquery.errors import ArtifactError
from nextquery.feedback.events import source_of
from nextquery.feedback.reranking.reranking_features import FEATURES, Candidate, list_features
from nextquery.feedback.reranking.taken_rates import TakenRates
from nextquery.feedback.reranking.trees import Trees
from nextquery.guard.guard import Guard
from nextquery.records import ScoredQuery, Suggestion
from nextquery.suggesters.base import Adjustable, Completer, Decoding, Suggester
from nextquery.suggesters.count_suggester import clean
from nextquery.suggesters.counts.storage import load_array, load_record
from nextquery.suggesters.loading import load_artifact

KIND = "reranked"
BASE = "base"
POOL = 10
"""So many of the base model's suggestions are ordered, or as many as are asked for."""
TIE = 1e-9
"""What each place in the base model's order costs, so that equals keep that order."""


class Reranker:
    """A base model whose lists are ordered anew."""

    kind = KIND

    def __init__(
        self, artifact: Artifact, base: Suggester, guard: Guard, trees: Trees, rates: TakenRates
    ) -> None:
        self.guard = guard
        self.base = base
        self.enabled = bool(artifact.entry("enabled"))
        """Whether the order of lists is changed; the guard of feedback can switch it off."""
        self.specificity = base.specificity if isinstance(base, Adjustable) else 0.0
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
    ) -> list[Suggestion]:
        """At most `n` suggestions, those first that visitors would rather take."""
        if not self.enabled:
            return self._base_list(context, n, specificity, diversity)
        pool = self._base_list(context, max(n, POOL) if n > 0 else n, specificity, diversity)
        return self.reorder(context, pool)[:n]

    def reorder(self, context: Sequence[str], pool: Sequence[Suggestion]) -> list[Suggestion]:
        """The same suggestions in the order of the trees, ties in the order they have.

        Scores become those of the trees: within one list the higher is the better.
        """
        candidates = [Candidate(each.text, each.score, source_of(each.source)) for each in pool]
        if not candidates:
            return []
        values = self._trees.scores(list_features(clean(context), candidates, self._rates))
        values -= TIE * np.arange(len(values))
        order = np.argsort(-values, kind="stable")
        return [replace(pool[place], score=float(values[place])) for place in order]

    def _base_list(
        self, context: Sequence[str], n: int, specificity: float | None, diversity: float
    ) -> list[Suggestion]:
        if isinstance(self.base, Decoding):
            wanted: dict[str, float] = {"diversity": diversity}
            if specificity is not None:
                wanted["specificity"] = specificity
            config = self.base.config.model_copy(update=wanted)
            return self.base.suggest(context, n, config=config)
        assert isinstance(self.base, Adjustable), f"{self.base.kind} takes no options"
        return self.base.suggest(context, n, specificity=specificity, diversity=diversity)

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The base model's likelihoods."""
        return self.base.score(context, candidates)

    def complete(self, context: Sequence[str], prefix: str, n: int = 5) -> list[Suggestion]:
        """The base model's completions."""
        assert isinstance(self.base, Completer), f"{self.base.kind} completes nothing"
        return self.base.complete(context, prefix, n)
