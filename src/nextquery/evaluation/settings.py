"""What an experiment can be told. Knows values and their limits."""

from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import InputError
from nextquery.evaluation.ranking.scenarios import SCENARIOS


@dataclass(frozen=True)
class ExperimentSettings:
    """What an experiment can be told.

    >>> ExperimentSettings(scenarios=("robust",), seeds=1).min_followers
    20
    """

    scenarios: tuple[str, ...] = tuple(SCENARIOS)
    min_followers: int = 20
    seeds: int = 5
    """How many rankers are trained for each learnt system."""
    seed: int = 0
    """Of everything that is drawn: noise, distractors, samples, projections."""
    ranker_cases: int = 10_000
    """At most this many training, and validation, cases teach the rankers of a scenario."""
    generation_contexts: int = 500
    gate_contexts: int = 2000
    boundary_queries: int = 10_000
    """How many queries of the validation and of the test streams are looked at."""
    boundary_labels: Path | None = None

    def __post_init__(self) -> None:
        unknown = set(self.scenarios) - set(SCENARIOS)
        if unknown:
            raise InputError(f"`scenario` {min(unknown)!r}: must be one of {', '.join(SCENARIOS)}")
        if self.min_followers < 1 or self.seeds < 1:
            raise InputError("`min_followers` and `seeds` must be at least 1")
