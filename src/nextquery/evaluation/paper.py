"""The paper's own results and examples, and the tables that correspond to them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.artifacts import open_artifact
from nextquery.evaluation.lists import ListMaker
from nextquery.evaluation.probes.gates import GateExample, read_gates
from nextquery.evaluation.systems import SystemSource
from nextquery.records import Session
from nextquery.suggesters.base import Embedder, Gated, Suggester


@dataclass(frozen=True)
class PaperScenario:
    """MRR by system, and what the text says of the test cases."""

    table: str
    mrr: Mapping[str, float]
    noisy_contexts: float | None
    printed: Mapping[str, float]
    """The relative gains of the ranker with HRED as the paper prints them."""

    def gain(self, over: str) -> float:
        """The relative gain of the ranker with HRED, from the MRRs."""
        return self.mrr["baseline+hred"] / self.mrr[over] - 1.0

    def gain_text(self, over: str) -> str:
        """The gain from the MRRs, with the printed one where that differs.

        >>> PAPER["next_query"].gain_text("baseline"), PAPER["long_tail"].gain_text("baseline")
        ('+3.3%', '+4.8% (printed as +5.6%)')
        """
        computed, printed = f"{self.gain(over):+.1%}", f"{self.printed[over]:+.1%}"
        return computed if computed == printed else f"{computed} (printed as {printed})"


PAPER: Mapping[str, PaperScenario] = {
    "next_query": PaperScenario(
        "Table 3",
        {"adj": 0.5334, "baseline": 0.5563, "baseline+hred": 0.5749},
        0.37,
        {"adj": 0.078, "baseline": 0.033},
    ),
    "robust": PaperScenario(
        "Table 4",
        {"adj": 0.4507, "baseline": 0.4831, "baseline+hred": 0.5309},
        None,
        {"adj": 0.178, "baseline": 0.099},
    ),
    "long_tail": PaperScenario(
        "Table 5",
        {"adj": 0.3830, "baseline": 0.6788, "baseline+hred": 0.7112},
        0.08,
        {"adj": 0.853, "baseline": 0.056},
    ),
}

SESSIONS = {
    "background": 1_708_224,
    "training": 435_705,
    "validation": 166_836,
    "test": 230_359,
}

TRAINING = {
    "batches": "135,350",
    "training": "44 h 01 min",
    "decoding": "about 1 s",
    "memory": "301 MB",
}

LONG_SESSION_GAINS = {"adj": 0.15, "baseline": 0.07}
"""What HRED gains in long sessions, over ADJ and over the Baseline Ranker (section 4.4)."""

TABLE_1: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("ace series drive",): (
        "ace hardware",
        "ace hard drive",
        "hp officejet drive",
        "ace hardware series",
    ),
    ("cleveland gallery", "lake erie art"): (
        "cleveland indian art",
        "lake erie art gallery",
        "lake erie picture gallery",
        "sandusky ohio art gallery",
    ),
}
"""The contexts of Table 1 and the paper's synthetic suggestions."""

FIGURE_7 = ("airlines", "united airlines", "google")
"""The corrupted context whose update gates Figure 7 shows; the last query is the noise."""


SUGGESTIONS = 5


@dataclass(frozen=True)
class PaperContext:
    """One of Table 1's contexts, with what a model suggests after it."""

    context: tuple[str, ...]
    suggestions: tuple[str, ...]
    missing_words: tuple[str, ...]
    """Words that the model's vocabulary lacks; nothing is asked where there is one."""


@dataclass(frozen=True)
class PaperExamples:
    """What one model makes of the paper's examples."""

    table_1: tuple[PaperContext, ...]
    figure_7: GateExample | None
    """The update gates; None where a word is missing."""


def paper_examples(systems: Mapping[str, object]) -> dict[str, PaperExamples]:
    """The examples of every model that has gates, and a vocabulary to look the words up in."""
    examples = {}
    for name, system in systems.items():
        if not isinstance(system, Embedder) or not isinstance(system, Gated):
            continue
        if isinstance(system, Suggester):
            table_1 = []
            for context in TABLE_1:
                missing = missing_words(system, context)
                suggestions = [] if missing else system.suggest(context, SUGGESTIONS)
                texts = tuple(suggestion.text for suggestion in suggestions)
                table_1.append(PaperContext(context, texts, missing))
            figure_7 = None if missing_words(system, FIGURE_7) else read_gates(system, FIGURE_7)
            examples[name] = PaperExamples(tuple(table_1), figure_7)
    return examples


def missing_words(model: Embedder, context: Sequence[str]) -> tuple[str, ...]:
    """The words of a context that a model's vocabulary lacks, in their order."""
    words = dict.fromkeys(word for query in context for word in query.split())
    return tuple(word for word in words if word not in model.model.vocabulary)


METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class TrainingFacts:
    """What a model folder says of its training: its manifest's own entries, as they are there."""

    kind: str
    megabytes: float
    model: Mapping[str, Any] | None
    training: Mapping[str, Any] | None
    best_validation: Mapping[str, Any] | None
    """The line of `metrics.jsonl` with the lowest validation loss."""

    @property
    def copies(self) -> bool:
        """Whether the model may copy words of the session, which the paper's does not."""
        return bool((self.model or {}).get("copy"))


def training_table(models: Mapping[str, SystemSource]) -> dict[str, TrainingFacts]:
    """Of each model folder: its size, its settings, and its last results of training."""
    return {name: _facts(source) for name, source in models.items() if isinstance(source, Path)}


def _facts(folder: Path) -> TrainingFacts:
    artifact = open_artifact(folder)
    files = artifact.manifest["files"]
    weights = (name for name in files if name.endswith(".safetensors"))
    size = sum(artifact.file(name).stat().st_size for name in weights)
    return TrainingFacts(
        kind=artifact.kind,
        megabytes=size / 1e6,
        model=artifact.manifest.get("model"),
        training=artifact.manifest.get("training"),
        best_validation=_best_validation(artifact.file(METRICS)) if METRICS in files else None,
    )


def _best_validation(path: Path) -> dict[str, Any] | None:
    """The line of `metrics.jsonl` with the lowest validation loss."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    measured = [line for line in lines if "validation_nll" in line]
    return min(measured, key=lambda line: float(line["validation_nll"]), default=None)


CONTEXTS = 6


@dataclass(frozen=True)
class SampleContext:
    """A context, what the user typed next, and what every system suggests."""

    context: tuple[str, ...]
    next_query: str
    suggestions: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class SampleTable:
    """A few contexts with their suggestions."""

    contexts: tuple[SampleContext, ...]


def sample_suggestions(
    suggesters: Mapping[str, ListMaker], sessions: Sequence[Session], seed: int
) -> SampleTable:
    """The first suggestions of every system for contexts of one, two and three queries."""
    generator = np.random.default_rng(seed)
    chosen: list[Session] = []
    for queries in (1, 2, 3):
        fitting = [session for session in sessions if len(session.queries) == queries + 1]
        positions = generator.permutation(len(fitting))[: CONTEXTS // 3]
        chosen += [fitting[position] for position in positions]
    return SampleTable(tuple(_suggest(suggesters, session) for session in chosen))


def _suggest(suggesters: Mapping[str, ListMaker], session: Session) -> SampleContext:
    *context, next_query = session.queries
    lists = {
        name: tuple(suggestion.text for suggestion in suggester.suggest(context, SUGGESTIONS))
        for name, suggester in suggesters.items()
    }
    return SampleContext(tuple(context), next_query, lists)
