"""The audit of a model: planted copies of its log, models made of them again, and what they say.

Knows the order of the work. Everything is made in a temporary folder and gone afterwards; the model
and its data are only read.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from nextquery.artifacts import further_entries, open_artifact, publish
from nextquery.config import stored_section
from nextquery.errors import InputError
from nextquery.evaluation.audit.coverage import Coverage, coverage
from nextquery.evaluation.audit.measures import (
    Exposure,
    PoisonCurve,
    chance_bits,
    exposures,
    poison_curve,
)
from nextquery.evaluation.audit.planted_log import write_planted
from nextquery.evaluation.audit.planting import Plan, PlantingSettings, make_plan
from nextquery.guard.build_tables import write_tables
from nextquery.guard.guard import Guard
from nextquery.guard.guard_tables import FOLDER as GUARD
from nextquery.logs.data_folder import PreparedData
from nextquery.model.files import KIND
from nextquery.suggesters.fitting.fit import ASKS_FOR_HITS, fit_model
from nextquery.suggesters.loading import COUNT_MODELS, count_model, load

Say = Callable[[str], None]


@dataclass(frozen=True)
class AuditSettings:
    """What an audit can be told."""

    kinds: tuple[str, ...] = ()
    """Further kinds of count models to be made of the planted log, beside the model's own."""
    min_users: tuple[int, ...] = (1, 3, 5, 10)
    """The values of K under which poisoning is tried; that of the log is always among them."""
    config: str | None = None
    """A training config: HRED is trained on the planted log, too, once for every K."""
    blocklist: Path | None = None
    planting: PlantingSettings = field(default_factory=PlantingSettings)


@dataclass(frozen=True)
class KindExposure:
    """What a kind of model gives away of secrets, as it is made and without any guard."""

    kind: str
    guarded: tuple[Exposure, ...]
    unguarded: tuple[Exposure, ...]


@dataclass(frozen=True)
class AuditResult:
    """Everything that an audit found."""

    model: str
    kind: str
    min_users: int
    """K of the log."""
    secrets: int
    """Secrets of one kind: the highest exposure is their logarithm."""
    chance_bits: float
    """The mean exposure of a secret that left no trace."""
    exposures: tuple[KindExposure, ...]
    poisoning: tuple[PoisonCurve, ...]
    coverage: Coverage
    not_made: tuple[str, ...]
    """Kinds that were not made again, each with the reason."""


def audit(
    model: Path, data: PreparedData, settings: AuditSettings | None = None, say: Say | None = None
) -> AuditResult:
    """Plant, make models again, and measure."""
    settings, say = settings or AuditSettings(), say or _quiet
    artifact = open_artifact(model)
    kind = str(artifact.manifest.get("base", artifact.kind))
    kinds = _kinds(kind, settings)
    plan = make_plan(data, settings.planting)
    with TemporaryDirectory(prefix="nextquery-audit-") as work:
        measured = Measured()
        trained: Path | None = None
        # The log's own K first: HRED is trained once, on that copy, and then guarded by each K.
        for level in sorted(
            {data.min_users, *settings.min_users}, key=lambda k: k != data.min_users
        ):
            own = level == data.min_users
            say(f"planting {len(plan.sessions()):,} sessions, K = {level}")
            folder = Path(work) / str(level)
            planted = write_planted(data, folder / "data", plan.sessions(), level)
            for name, made in _made(kinds, planted, model, folder, say):
                measured.add(name, made, level, plan, own=own, bare=level == 1)
            if settings.config is not None:
                trained = trained or _trained(planted, folder / "trained", settings.config, say)
                made = guarded_copy(trained, planted, folder / KIND)
                measured.add(KIND, made, level, plan, own=own, bare=own)
    say("asking the model for lists")
    guard = Guard.open(model, settings.blocklist)
    lists = load(model, blocklist=settings.blocklist), load(model, guarded=False)
    return AuditResult(
        model=str(model),
        kind=artifact.kind,
        min_users=data.min_users,
        secrets=len(plan.decoys) + 1,
        chance_bits=chance_bits(len(plan.decoys) + 1),
        exposures=measured.exposures(),
        poisoning=tuple(sorted(measured.curves, key=lambda each: (each.kind, each.min_users))),
        coverage=coverage(data, *lists, guard, settings.blocklist),
        not_made=_not_made(kind, settings),
    )


class Measured:
    """What was measured so far, by kind."""

    def __init__(self) -> None:
        self.curves: list[PoisonCurve] = []
        self._guarded: dict[str, tuple[Exposure, ...]] = {}
        self._unguarded: dict[str, tuple[Exposure, ...]] = {}

    def add(self, kind: str, made: Path, level: int, plan: Plan, *, own: bool, bare: bool) -> None:
        """Measure a model: `own` as the log's K has it, `bare` without any guard."""
        guarded = load(made)
        self.curves.append(poison_curve(guarded, kind, level, plan.attacks))
        if own:
            self._guarded[kind] = exposures(guarded, plan.canaries, plan.decoys)
        if bare:
            self._unguarded[kind] = exposures(load(made, guarded=False), plan.canaries, plan.decoys)

    def exposures(self) -> tuple[KindExposure, ...]:
        """The exposures of every kind."""
        return tuple(
            KindExposure(kind, self._guarded.get(kind, ()), self._unguarded.get(kind, ()))
            for kind in dict.fromkeys([*self._guarded, *self._unguarded])
        )


def _kinds(kind: str, settings: AuditSettings) -> list[str]:
    """The count models to be made: the model's own kind, if it counts, and those asked for."""
    for name in settings.kinds:
        if name not in COUNT_MODELS or name in ASKS_FOR_HITS:
            raise InputError(f"`kinds` {name}: not a count model that can be made of any log")
    own = [kind] if kind in COUNT_MODELS and kind not in ASKS_FOR_HITS else []
    return list(dict.fromkeys([*own, *settings.kinds]))


def _made(
    kinds: Sequence[str], planted: PreparedData, model: Path, work: Path, say: Say
) -> Iterator[tuple[str, Path]]:
    """The models of a planted log; the audited one's own kind with its own settings."""
    artifact = open_artifact(model, verify=False)
    for name in kinds:
        say(f"fitting {name}")
        kind = count_model(name)
        settings = None
        if artifact.kind == name:
            settings = stored_section(kind.settings_type, artifact.entry("settings"), model)
        fit_model(kind, planted, settings).save(work / name)
        yield name, work / name


def _trained(planted: PreparedData, out: Path, config: str, say: Say) -> Path:
    from nextquery.config import load_config
    from nextquery.model.settings import RunConfig
    from nextquery.training.distributed import processes
    from nextquery.training.run import train

    say(f"training HRED with the config {config}")
    with processes("auto") as group:
        train(planted, out, load_config(RunConfig, config), group, say=say)
    return out


def guarded_copy(trained: Path, planted: PreparedData, out: Path) -> Path:
    """A trained model under the guard of another K.

    K decides which words a model is trained with, too; the planted phrases are of frequent words,
    which every K knows.
    """
    artifact = open_artifact(trained, KIND)
    with publish(out, KIND, further_entries(artifact.manifest)) as folder:
        for name in artifact.manifest["files"]:
            if Path(name).parts[0] != GUARD:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(trained / name, folder / name)
        write_tables(planted, folder)
    return out


def _not_made(kind: str, settings: AuditSettings) -> tuple[str, ...]:
    reasons = []
    if kind == KIND and settings.config is None:
        reasons.append(f"{kind}: training takes long; give a `config` to train on the planted log")
    if kind in ASKS_FOR_HITS:
        reasons.append(f"{kind}: it needs to know which queries find something")
    return tuple(reasons)


def _quiet(text: str) -> None:
    """Nobody is told."""
