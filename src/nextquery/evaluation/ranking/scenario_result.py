"""What a scenario gives, as frozen records. Knows the shape of results, not how they come about."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nextquery.evaluation.ranking.comparison import Comparison, RankingResult
from nextquery.evaluation.ranking.metrics import Quality
from nextquery.evaluation.record_json import OPTIONAL
from nextquery.ranking.lambdamart import TreeShape


@dataclass(frozen=True, kw_only=True)
class SplitResult:
    """Every system on the cases of one split; no systems where there are too few cases."""

    too_few: str | None = field(default=None, metadata=OPTIONAL)
    systems: Mapping[str, Quality] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    by_session_length: Mapping[str, RankingResult] = field(default_factory=dict, metadata=OPTIONAL)
    """Of short, medium and long sessions (the paper's Figure 5)."""
    by_last_click: Mapping[str, RankingResult] = field(default_factory=dict, metadata=OPTIONAL)
    """Of sessions whose last query was `clicked` and of those where it was `not_clicked`."""
    by_user_group: Mapping[str, RankingResult] = field(default_factory=dict, metadata=OPTIONAL)
    """Of the users of each file of `users_apart`."""

    def comparison(self, a: str, b: str) -> Comparison | None:
        """The comparison of two systems, if it was made."""
        return find_comparison(self.comparisons, a, b)


@dataclass(frozen=True)
class RankerFacts:
    """How the rankers of a learnt system came out."""

    forms: tuple[str, ...]
    """The forms of the model's score that they see."""
    shape: TreeShape
    trees: tuple[int, ...]
    """The number of trees of each seed's ranker."""
    validation_mrr: float
    importances: Mapping[str, float]


@dataclass(frozen=True)
class ContextLengthResult:
    """Long sessions with the model seeing only the last queries (the paper's Figure 6)."""

    cases: int
    too_few: str | None = field(default=None, metadata=OPTIONAL)
    queries: Mapping[str, Mapping[str, Quality]] = field(default_factory=dict, metadata=OPTIONAL)
    """By how many queries the model sees, `all` the last, then by system."""
    comparisons: tuple[Comparison, ...] = field(default=(), metadata=OPTIONAL)
    """The ranker when the model sees `all` queries against the same when it sees fewer."""


@dataclass(frozen=True, kw_only=True)
class ScenarioResult(SplitResult):
    """A scenario's results: those of its test split, and what lies behind them."""

    cases: Mapping[str, int]
    """The number of cases by split."""
    session_lengths: Mapping[str, float | None]
    """The shares of short, medium and long sessions (Figure 4)."""
    noisy_contexts: float | None
    """The share of contexts that hold one of the 100 most frequent queries."""
    candidates: float | None
    """The mean number of candidates of a case."""
    users: int = 0
    """How many people the test cases are of."""
    unseen_users: SplitResult | None = field(default=None, metadata=OPTIONAL)
    rankers: Mapping[str, RankerFacts] = field(default_factory=dict, metadata=OPTIONAL)
    form_choices: Mapping[str, Mapping[str, float]] = field(default_factory=dict, metadata=OPTIONAL)
    """By model: the validation MRR of each set of forms of its score."""
    ranker_seconds: float = field(default=0.0, metadata=OPTIONAL)
    """Processor time of the processes that trained the rankers, if they had any of their own."""
    single_features: Mapping[str, float] = field(default_factory=dict, metadata=OPTIONAL)
    by_context_length: Mapping[str, ContextLengthResult] = field(
        default_factory=dict, metadata=OPTIONAL
    )


def find_comparison(comparisons: tuple[Comparison, ...], a: str, b: str) -> Comparison | None:
    """The comparison of two systems, if it was made."""
    return next((each for each in comparisons if (each.a, each.b) == (a, b)), None)
