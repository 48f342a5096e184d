"""The settings of experiments, checks and audits, and their limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import InputError
from nextquery.settings import TUNING, check_limits, setting

EXPORTS = ("seeds", "learning")


@dataclass(frozen=True)
class ExperimentSettings:
    """The settings of an experiment.

    >>> ExperimentSettings(scenarios=("robust",), seeds=1).min_followers
    20
    """

    scenarios: tuple[str, ...] = setting((), flag="--scenario")
    """Only this scenario: next_query, robust, long_tail or every_context; repeatable."""
    min_followers: int = setting(20, least=1)
    """Only sessions whose anchor has at least this many known next queries."""
    seeds: int = setting(5, least=1)
    """Rankers trained for each learnt system; their mean is reported."""
    seed: int = setting(0, least=0, most=2**32 - 1)  # the projections take 32-bit seeds only
    """Seed of everything that is drawn at random: noise, distractors, samples, projections."""
    ranker_cases: int | None = setting(None, least=1, panel=TUNING)
    """Most training (and validation) cases that rankers learn from; all by default."""
    ranker_positions: str = setting("last", choices=("last", "every"))
    """Rankers learn from the last query of a session, as in the paper, or from every next query:
    last or every. Test cases are last queries in both."""
    visitors: str = setting("both", choices=("known", "new", "both"))
    """Whose sessions are tested: known (the paper's rule), new (the case's own user is not counted)
    or both."""
    new_visitor_cases: str = setting("test", choices=("test", "all"))
    """Sessions of new visitors: test (of the test split) or all (of all splits)."""
    test_users: int | None = setting(None, least=1, panel=TUNING)
    """Test only cases of this many users, drawn at random; of all users by default."""
    earlier_queries: int = setting(0, least=0, most=10)
    """Also rank with this many of the user's last queries from earlier sessions put before the
    context; for known visitors."""
    encoder: str | None = None
    """module:function, a sentence encoder: also rank with its cosines."""
    fold_configs: Mapping[str, str] = setting(
        {}, factory=dict, flag="--fold-config", metavar="NAME=CONFIG"
    )
    """Train this --model again with CONFIG on folds of users, so that it has not seen the users of
    its test cases; repeatable."""
    folds: int = setting(2, least=2, panel=TUNING)
    """Folds of users for `fold_configs`."""
    learning_curve: bool = False
    """Also run at five sizes of the background."""
    learning_curve_config: str | None = None
    """Train the first --model with this config at every size of the learning curve."""
    generation_contexts: int = setting(500, panel=TUNING)
    """Test contexts for which every system suggests."""
    completion_contexts: int = setting(200, panel=TUNING)
    """Test contexts whose next query every system completes."""
    gate_contexts: int = setting(2000, flag=None)
    """Contexts whose update gates are measured."""
    boundary_queries: int = setting(10_000, flag=None)
    """How many queries of the validation and of the test streams are looked at."""
    boundary_labels: Path | None = None
    """A CSV or TSV file with user, query, session: the true session boundaries."""
    runs: Mapping[str, Path | Sequence[Path]] = setting({}, factory=dict, flag=None)
    """TREC runs that others made, by the name of their system: one file per scenario. A run that
    also has the training and validation cases becomes a feature of a ranker, too."""
    exports: tuple[str, ...] = setting((), flag="--export", panel=TUNING)
    """More files in trec/: seeds (a run of each seed) or learning (the cases that rankers learn
    from); repeatable."""
    users_apart: Mapping[str, Path] = setting({}, factory=dict, metavar="NAME=FILE", panel=TUNING)
    """File of user ids, one per line: also report their test cases separately; repeatable."""

    def __post_init__(self) -> None:
        # Not above: the command line reads its defaults here and answers `--help` at once.
        from nextquery.evaluation.scenarios import SCENARIOS

        object.__setattr__(self, "scenarios", self.scenarios or tuple(SCENARIOS))
        for name, allowed in (("scenarios", tuple(SCENARIOS)), ("exports", EXPORTS)):
            unknown = set(getattr(self, name)) - set(allowed)
            if unknown:
                raise InputError(f"`{name}` {min(unknown)!r}: must be one of {', '.join(allowed)}")
        for name in self.runs:
            self._check_run(name, tuple(SCENARIOS))
        check_limits(self)
        for path in self.users_apart.values():
            if not path.is_file():
                raise InputError(f"`users_apart` {path}: no such file")
        if self.earlier_queries and self.visitors == "new":
            raise InputError(
                "`earlier_queries`: new visitors have none; `visitors` must not be new"
            )
        if self.learning_curve_config is not None:
            object.__setattr__(self, "learning_curve", True)

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


@dataclass(frozen=True)
class PlantingSettings:
    """How much an audit plants in a copy of the log."""

    canary_users: tuple[int, ...] = setting((0, 1, 2, 5, 10), flag=None)
    """How many people type a secret; 0 is the control."""
    canaries: int = setting(10, least=1)
    """Planted secrets per number of people who type one."""
    fake_users: tuple[int, ...] = setting((1, 2, 3, 5, 10, 20, 50), flag=None)
    """How many fake users push a phrase."""
    contexts: int = setting(10, least=1)
    """Poisoned contexts per number of fake users."""
    decoys: int = setting(1023, flag=None)
    """Secrets that nobody typed; with the canary's own a power of two."""
    seed: int = setting(0, least=0)
    """Seed of what is planted."""


@dataclass(frozen=True)
class AuditSettings:
    """The settings of an audit."""

    kinds: tuple[str, ...] = setting((), flag="--kind")
    """One more kind of count model to audit; repeatable."""
    config: str | None = None
    """Also train HRED on the planted log with this config, e.g. tiny."""
    blocklist: Path | None = None
    """The site's blocklist, to measure what it blocks."""
    min_users: tuple[int, ...] = setting((1, 3, 5, 10), least=1)
    """Try poisoning with this `prepare --min-users`; repeatable."""
    planting: PlantingSettings = setting(PlantingSettings(), factory=PlantingSettings, flag=None)
