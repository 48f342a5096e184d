"""All probes of an experiment: what each measures, and its section of the report.

A probe is a step of the experiment that needs no ranker. To add one, write a function that takes a
`ProbeInput`, a row of `PROBES`, and a field of `ExperimentResults` with the name of the probe and
the type of its result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nextquery.evaluation.completion import CompletionResult, run_completion
from nextquery.evaluation.lists import (
    LISTED,
    SHOWN,
    DecodingTime,
    GenerationCase,
    GenerationResult,
    decoding_time,
    list_time,
    run_generation,
    sample_contexts,
)
from nextquery.evaluation.paper import SampleTable, paper_examples, sample_suggestions
from nextquery.evaluation.probes.gates import (
    BoundaryResult,
    GateComparison,
    GateResult,
    Projections,
    boundary_result,
    gate_result,
    projections,
    read_gaps,
)
from nextquery.evaluation.probes.likelihood import (
    IntentResult,
    NgramPerplexity,
    intent_result,
    ngram_perplexities,
)
from nextquery.evaluation.report import sections
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.returning import ReturningResult, returning_result
from nextquery.evaluation.scenario_features import EvaluationData
from nextquery.evaluation.scenarios import Noise
from nextquery.evaluation.settings import ExperimentSettings
from nextquery.evaluation.steps import Steps
from nextquery.evaluation.systems import TRIVIAL, Systems
from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.records import Session
from nextquery.suggesters.base import Decoding, Embedder, Gated, Guarded


@dataclass(frozen=True)
class ProbeInput:
    """What every probe is given."""

    data: PreparedData
    systems: Systems
    evaluation: EvaluationData
    settings: ExperimentSettings
    steps: Steps

    @property
    def test(self) -> list[Session]:
        """The test sessions."""
        return self.evaluation.sessions["test"]

    @cached_property
    def known(self) -> frozenset[str]:
        """The queries that K users typed: a report quotes no others."""
        rows = self.data.counts("queries").filter(pl.col("users") >= self.data.min_users)
        return frozenset(rows.select("query").collect()["query"])

    @property
    def gated(self) -> dict[str, Gated]:
        """The models under study that have update gates."""
        models = self.systems.models.items()
        return {name: model for name, model in models if isinstance(model, Gated)}

    @property
    def embedders(self) -> dict[str, Embedder]:
        """The models under study that have vectors of words and queries."""
        models = self.systems.models.items()
        return {name: model for name, model in models if isinstance(model, Embedder)}

    def contexts(self, sessions: Sequence[Session], number: int) -> list[GenerationCase]:
        """A sample of the contexts of sessions."""
        return sample_contexts(sessions, self.evaluation.background, number, self.settings.seed)


class Section(NamedTuple):
    """A section of the report."""

    anchor: str
    title: str
    write: Callable[[Path, ExperimentResults], str]


@dataclass(frozen=True)
class Probe:
    """A step of the experiment whose result is the field `name` of `ExperimentResults`."""

    name: str
    run: Callable[[ProbeInput], Any]
    section: Section | None = None
    """None: shown in the section of another probe."""
    timed: bool = False
    """Measures time, and so runs when nothing else does."""


def _lists(inputs: ProbeInput, sessions: list[Session]) -> GenerationResult:
    if not sessions:
        return GenerationResult(0, LISTED, SHOWN, {})
    cases = inputs.contexts(sessions, inputs.settings.generation_contexts)
    makers = inputs.systems.list_makers
    popularity = makers.get("popularity")
    guard = popularity.guard if isinstance(popularity, Guarded) else None
    trivial = [name for name in TRIVIAL if name in makers]
    return run_generation(makers, cases, inputs.evaluation.background, inputs.steps, guard, trivial)


def _completion(inputs: ProbeInput) -> CompletionResult:
    cases = inputs.contexts(inputs.test, inputs.settings.completion_contexts)
    return run_completion(inputs.systems.suggesters, cases, inputs.steps)


def _returning(inputs: ProbeInput) -> ReturningResult:
    return returning_result(
        inputs.data,
        inputs.systems.suggesters,
        inputs.evaluation.background,
        inputs.settings.generation_contexts,
        inputs.settings.seed,
        inputs.steps,
    )


def _samples(inputs: ProbeInput) -> SampleTable:
    public = [session for session in inputs.test if inputs.known.issuperset(session.queries)]
    return sample_suggestions(inputs.systems.suggesters, public, inputs.settings.seed)


def _ngrams(inputs: ProbeInput) -> dict[str, tuple[NgramPerplexity, ...]]:
    return {
        name: ngram_perplexities(inputs.data, model.model.vocabulary, inputs.steps.track(name))
        for name, model in inputs.embedders.items()
    }


def _gates(inputs: ProbeInput) -> dict[str, GateComparison | GateResult]:
    noise = Noise(inputs.evaluation.background, inputs.settings.seed)
    sessions = inputs.test[: inputs.settings.gate_contexts]
    return {
        name: gate_result(model, sessions, noise, inputs.steps.track(name), inputs.known)
        for name, model in inputs.gated.items()
    }


def _hidden_intent(inputs: ProbeInput) -> dict[str, IntentResult]:
    results = {
        name: intent_result(model, inputs.test, track=inputs.steps.track(name))
        for name, model in inputs.systems.models.items()
    }
    return {name: result for name, result in results.items() if result is not None}


def _boundaries(inputs: ProbeInput) -> BoundaryResult:
    settings = inputs.settings
    tuning, test = read_gaps(inputs.data, settings.boundary_queries, settings.boundary_labels)
    return boundary_result(tuning, test, inputs.gated, inputs.steps.track("gates"))


def _projections(inputs: ProbeInput) -> dict[str, Projections]:
    return {
        name: projections(model, inputs.data, inputs.settings.seed)
        for name, model in inputs.embedders.items()
    }


def _decoding(inputs: ProbeInput) -> dict[str, DecodingTime]:
    return {
        name: decoding_time(model, inputs.test)
        for name, model in inputs.systems.models.items()
        if isinstance(model, Decoding)
    }


def _list_times(inputs: ProbeInput) -> dict[str, float]:
    if not inputs.test:
        return {}
    makers = inputs.systems.list_makers.items()
    return {name: list_time(maker, inputs.test) for name, maker in makers}


PROBES: tuple[Probe, ...] = (
    Probe(
        "generation",
        lambda inputs: _lists(inputs, inputs.test),
        Section("generation", "Suggestions without candidates", sections.generation),
    ),
    Probe(  # of visitors whom the background does not know
        "unseen_generation",
        lambda inputs: _lists(inputs, inputs.evaluation.sessions.get(UNSEEN_USERS, [])),
    ),
    Probe(
        "completion",
        _completion,
        Section("completion", "Completion and the next word", sections.completion),
    ),
    Probe("returning", _returning, Section("returning", "Returning visitors", sections.returning)),
    Probe("samples", _samples),
    Probe("paper_examples", lambda inputs: paper_examples(inputs.systems.models)),
    Probe("ngrams", _ngrams),
    Probe("gates", _gates, Section("gates", "Update gates and noise", sections.gates)),
    Probe(
        "hidden_intent",
        _hidden_intent,
        Section("intent", "The hidden intent of a synthetic log", sections.hidden_intent),
    ),
    Probe(
        "boundaries",
        _boundaries,
        Section("boundaries", "Session boundaries", sections.boundaries),
    ),
    Probe(
        "projections",
        _projections,
        Section("vectors", "Words and queries in space", sections.projections),
    ),
    Probe("decoding", _decoding, timed=True),
    Probe("list_times", _list_times, timed=True),
)
