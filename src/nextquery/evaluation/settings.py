"""The settings of an experiment and their limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nextquery.errors import InputError
from nextquery.settings import check_limits, setting

VISITORS = ("known", "new", "both")
NEW_VISITOR_CASES = ("test", "all")
RANKER_POSITIONS = ("last", "every")
EXPORTS = ("seeds", "learning")
MOST_EARLIER_QUERIES = 10
HIGHEST_SEED = 2**32 - 1
"""The projections take 32-bit seeds only."""


@dataclass(frozen=True)
class ExperimentSettings:
    """The settings of an experiment.

    >>> ExperimentSettings(scenarios=("robust",), seeds=1).min_followers
    20
    """

    scenarios: tuple[str, ...] = ()
    """All of them where none is named."""
    min_followers: int = 20
    seeds: int = 5
    """How many rankers are trained for each learnt system."""
    seed: int = 0
    """Of everything that is drawn: noise, distractors, samples, projections."""
    ranker_cases: int | None = None
    """At most this many training, and validation, cases teach the rankers; None: all."""
    ranker_positions: str = "last"
    """Rankers are taught by the last query of a session, as in the paper, or by `every` next query;
    the test cases are last queries in both."""
    visitors: str = "both"
    """`known`: the paper's rule; `new`: nothing counts that a case's own user did; or `both`."""
    new_visitor_cases: str = "test"
    """With new visitors: the sessions of the test split, or `all` sessions of the log."""
    test_users: int | None = None
    """The test cases of so many users only, drawn at random; None: of everybody."""
    earlier_queries: int = 0
    """Known visitors: also rank by the models' scores with so many of the user's last queries from
    sessions before put in front of the context; 0: not."""
    encoder: str | None = None
    """`module:function`, texts to vectors: the Baseline Ranker with cosines of meaning as well."""
    fold_configs: Mapping[str, str] = field(default_factory=dict)
    """By model under study: the config that trains its fold models for new visitors."""
    folds: int = 2
    """Each fold model is trained without the users of one of so many folds."""
    learning_curve: bool = False
    """Whether to measure how everything depends on the size of the background."""
    learning_curve_config: str | None = None
    """Trains the first model under study again at every size of the learning curve."""
    generation_contexts: int = 500
    completion_contexts: int = 200
    """Test contexts whose next query every system is asked to complete."""
    gate_contexts: int = 2000
    boundary_queries: int = 10_000
    """How many queries of the validation and of the test streams are looked at."""
    boundary_labels: Path | None = None
    runs: Mapping[str, Path | Sequence[Path]] = field(default_factory=dict)
    """TREC runs that others made, by the name of their system: one file per scenario. A run that
    also has the training and validation cases becomes a feature of a ranker, too."""
    exports: tuple[str, ...] = ()
    """More files in `trec/`: a run of each of the `seeds`, and the `learning` cases (training and
    validation)."""
    users_apart: Mapping[str, Path] = field(default_factory=dict)
    """Files of user ids, one per line, by name: their test cases are reported apart as well."""

    def __post_init__(self) -> None:
        # Not above: the command line reads its defaults here and answers `--help` at once.
        from nextquery.evaluation.scenarios import SCENARIOS

        object.__setattr__(self, "scenarios", self.scenarios or tuple(SCENARIOS))
        unknown = set(self.scenarios) - set(SCENARIOS)
        if unknown:
            raise InputError(f"`scenario` {min(unknown)!r}: must be one of {', '.join(SCENARIOS)}")
        unknown = set(self.exports) - set(EXPORTS)
        if unknown:
            raise InputError(f"`exports` {min(unknown)!r}: must be one of {', '.join(EXPORTS)}")
        for name in self.runs:
            self._check_run(name, tuple(SCENARIOS))
        if self.visitors not in VISITORS:
            raise InputError(f"`visitors` {self.visitors!r}: must be one of {', '.join(VISITORS)}")
        if self.new_visitor_cases not in NEW_VISITOR_CASES:
            raise InputError(
                f"`new_visitor_cases` {self.new_visitor_cases!r}: "
                f"must be one of {', '.join(NEW_VISITOR_CASES)}"
            )
        if self.ranker_positions not in RANKER_POSITIONS:
            raise InputError(
                f"`ranker_positions` {self.ranker_positions!r}: "
                f"must be one of {', '.join(RANKER_POSITIONS)}"
            )
        if self.ranker_cases is not None and self.ranker_cases < 1:
            raise InputError(f"`ranker_cases` {self.ranker_cases}: must be at least 1")
        if self.test_users is not None and self.test_users < 1:
            raise InputError(f"`test_users` {self.test_users}: must be at least 1")
        if not 0 <= self.earlier_queries <= MOST_EARLIER_QUERIES:
            raise InputError(
                f"`earlier_queries` {self.earlier_queries}: must be 0 to {MOST_EARLIER_QUERIES}"
            )
        if self.earlier_queries and self.visitors == "new":
            raise InputError(
                "`earlier_queries`: new visitors have none; `visitors` must not be new"
            )
        if self.folds < 2:
            raise InputError(f"`folds` {self.folds}: must be at least 2")
        if self.min_followers < 1 or self.seeds < 1:
            raise InputError("`min_followers` and `seeds` must be at least 1")
        if not 0 <= self.seed <= HIGHEST_SEED:
            raise InputError(f"`seed` {self.seed}: must be 0 to {HIGHEST_SEED}")

    def run_files(self) -> dict[str, tuple[Path, ...]]:
        """The files of each run, by the name of its system."""
        return {
            name: (files,) if isinstance(files, Path) else tuple(files)
            for name, files in self.runs.items()
        }

    def _check_run(self, name: str, scenarios: Sequence[str]) -> None:
        if not name or set(name) & set("+:"):
            raise InputError(f"`runs` {name!r}: a name must not be empty or have + or : in it")
        seen: dict[str, Path] = {}
        for path in self.run_files()[name]:
            scenario = path.name.split(".")[0]
            if scenario.removeprefix("new_") not in scenarios:
                raise InputError(
                    f"`runs` {path}: its name must begin with its scenario, as next_query.mine.run"
                )
            if scenario in seen:
                raise InputError(
                    f"`runs` {name}: given twice for {scenario} ({seen[scenario]} and {path}); "
                    "choose another name for one of them"
                )
            seen[scenario] = path


@dataclass(frozen=True)
class CheckSettings:
    """How two models are compared."""

    cases: int = setting(2000, least=1, most=1_000_000)
    """Next queries that are predicted at most, drawn at random."""
    list_length: int = setting(10, least=1, most=50)
    """Suggestions in which the next query is looked for."""
    tolerance: float = setting(0.02, least=0, most=1)
    """Share of MRR, and nats per symbol, that a new model may lose."""
    min_users: int = setting(20, least=2, most=1_000_000)
    """A comparison over fewer users decides nothing and does not pass."""

    def __post_init__(self) -> None:
        check_limits(self)
