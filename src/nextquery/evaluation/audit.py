"""The audit of a model: what it exposes, what fake users can push, what is blocked."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from nextquery.artifacts import further_entries, open_artifact, publish, temporary_folder
from nextquery.config import load_config, stored_section
from nextquery.errors import InputError
from nextquery.evaluation.planting import (
    FIRST,
    SHOWN,
    Exposure,
    PoisonCurve,
    chance_bits,
    exposures,
    make_plan,
    poison_curve,
    write_planted,
)
from nextquery.evaluation.settings import AuditSettings
from nextquery.guard.blocklist import Blocklist, read_blocklist, read_entries
from nextquery.guard.guard import Guard
from nextquery.guard.tables import FOLDER as GUARD
from nextquery.guard.tables import write_tables
from nextquery.logs.data_folder import PreparedData
from nextquery.model.settings import KIND, RunConfig
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.fit import ASKS_FOR_HITS, fit_model
from nextquery.suggesters.loading import COUNT_MODELS, count_model, load
from nextquery.training.distributed import processes
from nextquery.training.run import train

LISTED = 10
CONTEXTS = 200

_LEET = str.maketrans("aeiost", "431057")
_ACCENTS = str.maketrans("aeiou", "áéíóú")

DISGUISES: Mapping[str, Callable[[str], str]] = {
    "as written": lambda entry: entry,
    "leetspeak": lambda entry: entry.translate(_LEET),
    "accents": lambda entry: entry.translate(_ACCENTS),
    "plural": lambda entry: f"{entry}s",
    "letters drawn out": lambda entry: entry[:2] + entry[1:2] * 2 + entry[2:],
    "letters apart": lambda entry: " ".join(entry.replace(" ", "")),
    "words joined": lambda entry: entry.replace(" ", ""),
}
"""How people hide a word, as far as docs/how-to/guards.md promises to see through it."""


@dataclass(frozen=True)
class Coverage:
    """What the guards of a model hold back."""

    entries: int
    known_queries: int
    """Known queries of the log that hold an entry."""
    traffic: float
    """Their share of all that was typed in known queries."""
    lists: int
    refused: Mapping[str, int]
    """By reason: suggestions of the unguarded model that its guards refuse."""
    let_through: int
    """Suggestions of the guarded model that its blocklist blocks: 0, or there is a fault."""
    disguises: Mapping[str, float]
    """The share of the entries that is still seen in each disguise."""


def coverage(
    data: PreparedData, guarded: Suggester, unguarded: Suggester, guard: Guard, path: Path | None
) -> Coverage:
    """What the guards hold back of the log's known queries and of lists after frequent ones."""
    blocklist = read_blocklist(path) if path is not None else Blocklist()
    queries = data.counts("queries").select("query", "count").collect()
    marks = [blocklist.blocks(text) for text in queries["query"]]
    blocked = queries.filter(pl.Series(marks, dtype=pl.Boolean))
    contexts = queries["query"].head(CONTEXTS).to_list()
    refused: Counter[str] = Counter()
    let_through = 0
    for context in contexts:
        allowed_text = guard.own_text([context])
        for item in unguarded.suggest([context], LISTED):
            reason = guard.refusal(item.text, allowed_text)
            if reason is not None:
                refused[str(reason)] += 1
        shown = guarded.suggest([context], LISTED)
        let_through += sum(blocklist.blocks(item.text) for item in shown)
    total = float(queries["count"].sum())
    # The lines in which there is something to block.
    entries = read_entries(path) if path is not None else []
    entries = [entry.lower() for entry in entries if Blocklist([entry])]
    return Coverage(
        entries=len(blocklist),
        known_queries=len(blocked),
        traffic=float(blocked["count"].sum()) / total if total else 0.0,
        lists=len(contexts),
        refused=dict(sorted(refused.items())),
        let_through=let_through,
        disguises={
            name: float(np.mean([blocklist.blocks(disguise(entry)) for entry in entries]))
            for name, disguise in DISGUISES.items()
            if entries
        },
    )


Say = Callable[[str], None]


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
    settings, say = settings or AuditSettings(), say or (lambda _: None)
    artifact = open_artifact(model)
    kind = str(artifact.manifest.get("base", artifact.kind))
    kinds = _kinds(kind, settings)
    plan = make_plan(data, settings.planting)
    curves: list[PoisonCurve] = []
    guarded: dict[str, tuple[Exposure, ...]] = {}
    unguarded: dict[str, tuple[Exposure, ...]] = {}

    def measure(kind: str, model_folder: Path, level: int, *, bare: bool) -> None:
        """Measure a model made under a K of `level`; `bare`: also without its guard."""
        opened = load(model_folder)
        curves.append(poison_curve(opened, kind, level, plan.attacks))
        if level == data.min_users:
            guarded[kind] = exposures(opened, plan.canaries, plan.decoys)
        if bare:
            opened = load(model_folder, guarded=False)
            unguarded[kind] = exposures(opened, plan.canaries, plan.decoys)

    with temporary_folder() as work:
        trained: Path | None = None
        # The log's own K first: HRED is trained once, on that copy, and then guarded by each K.
        for level in sorted(
            {data.min_users, *settings.min_users}, key=lambda k: k != data.min_users
        ):
            say(f"planting {len(plan.sessions()):,} sessions, K = {level}")
            folder = work / str(level)
            planted = write_planted(data, folder / "data", plan.sessions(), level)
            for name, model_folder in _fitted(kinds, planted, model, folder, say):
                measure(name, model_folder, level, bare=level == 1)
            if settings.config is not None:
                if trained is None:
                    say(f"training HRED with the config {settings.config}")
                    trained = folder / "trained"
                    config = load_config(RunConfig, settings.config)
                    with processes("auto") as group:
                        train(planted, trained, config, group, say=say)
                model_folder = guarded_copy(trained, planted, folder / KIND)
                measure(KIND, model_folder, level, bare=level == data.min_users)
    say("asking the model for lists")
    guard = Guard.open(model, settings.blocklist)
    lists = load(model, blocklist=settings.blocklist), load(model, guarded=False)
    covered = coverage(data, *lists, guard, settings.blocklist)
    data.artifact.check_current()
    not_made = []
    if kind == KIND and settings.config is None:
        not_made.append(f"{kind}: training takes long; give a `config` to train on the planted log")
    if kind in ASKS_FOR_HITS:
        not_made.append(f"{kind}: it needs to know which queries find something")
    return AuditResult(
        model=str(model),
        kind=artifact.kind,
        min_users=data.min_users,
        secrets=len(plan.decoys) + 1,
        chance_bits=chance_bits(len(plan.decoys) + 1),
        exposures=tuple(
            KindExposure(name, guarded.get(name, ()), unguarded.get(name, ()))
            for name in dict.fromkeys([*guarded, *unguarded])
        ),
        poisoning=tuple(sorted(curves, key=lambda curve: (curve.kind, curve.min_users))),
        coverage=covered,
        not_made=tuple(not_made),
    )


def _kinds(kind: str, settings: AuditSettings) -> list[str]:
    """The count models to be made: the model's own kind, if it counts, and those asked for."""
    for name in settings.kinds:
        if name not in COUNT_MODELS or name in ASKS_FOR_HITS:
            raise InputError(f"`kinds` {name}: not a count model that can be made of any log")
    same_kind = [kind] if kind in COUNT_MODELS and kind not in ASKS_FOR_HITS else []
    return list(dict.fromkeys([*same_kind, *settings.kinds]))


def _fitted(
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


def guarded_copy(trained: Path, planted: PreparedData, out: Path) -> Path:
    """A trained model under the guard of another K.

    K decides which words a model is trained with, too; the planted phrases are of frequent words,
    which are known at every K.
    """
    artifact = open_artifact(trained, KIND)
    with publish(out, KIND, further_entries(artifact.manifest)) as folder:
        for name in artifact.manifest["files"]:
            if Path(name).parts[0] != GUARD:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(trained / name, folder / name)
        write_tables(planted, folder)
    return out


def describe(result: AuditResult) -> str:
    """The result as text."""
    not_made = [f"Not made again: {reason}." for reason in result.not_made]
    parts = [_secrets(result), _poison(result), _coverage(result), not_made]
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part)))


def _secrets(result: AuditResult) -> Iterator[str]:
    yield "1. Does the model give away what few people typed?"
    yield ""
    yield (
        f"Secrets of three words were planted in a copy of the log and the model made again. "
        f"Exposure says how easily a secret is guessed: {result.chance_bits:.1f} bits is chance, "
        f"{result.secrets.bit_length() - 1} bits means that it is the first guess of "
        f"{result.secrets:,}. With the guards: K = {result.min_users}, and lists as visitors see "
        "them. Without: K = 1, nothing refused."
    )
    yield ""
    head = ["typed by", "guarded: bits", "most", "shown", "unguarded: bits", "most", "shown"]
    for exposures_of_kind in result.exposures:
        without = {exposure.users: exposure for exposure in exposures_of_kind.unguarded}
        rows = [head]
        for exposure in exposures_of_kind.guarded:
            users = {0: "nobody", 1: "1 user"}.get(exposure.users, f"{exposure.users} users")
            rows.append([users, *_cells(exposure), *_cells(without.get(exposure.users))])
        yield exposures_of_kind.kind
        yield from _table(rows)
    yield f"(shown: among the first {SHOWN} suggestions after their context)"


def _cells(exposure: Exposure | None) -> list[str]:
    if exposure is None:
        return ["-", "-", "-"]
    return [
        f"{exposure.mean_bits:.1f}",
        f"{exposure.most_bits:.1f}",
        f"{exposure.shown} of {exposure.secrets}",
    ]


def _poison(result: AuditResult) -> Iterator[str]:
    yield "2. How many fake users push a phrase?"
    yield ""
    yield (
        "Fake users type a frequent query and then a phrase. Share of contexts in which the "
        f"phrase is then among the first {FIRST} suggestions, by the number of fake users:"
    )
    yield ""
    if not result.poisoning:
        return
    numbers = [str(point.fake_users) for point in result.poisoning[0].points]
    rows = [["model, K", *numbers, "half of them"]]
    for curve in result.poisoning:
        shares = [f"{point.pushed / point.contexts:.0%}" for point in curve.points]
        needed = "more" if curve.needed is None else f"with {curve.needed}"
        rows.append([f"{curve.kind}, {curve.min_users}", *shares, needed])
    yield from _table(rows)


def _coverage(result: AuditResult) -> Iterator[str]:
    covered = result.coverage
    yield "3. What do the guards hold back?"
    yield ""
    if not covered.entries:
        yield "No blocklist was given: only personal data and what fewer than K users typed is."
    else:
        yield (
            f"The blocklist has {covered.entries:,} entries. {covered.known_queries:,} known "
            f"queries of the log hold one ({covered.traffic:.2%} of what was typed). Of lists that "
            f"the guarded model made, {covered.let_through} suggestions held one."
        )
        seen = ", ".join(f"{name} {share:.0%}" for name, share in covered.disguises.items())
        yield f"Entries that are still seen when disguised: {seen}."
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in covered.refused.items())
    refusals = reasons or "nothing"
    yield f"Of {covered.lists} lists of the model without its guards, they refuse: {refusals}."


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows with their columns aligned, the first at the left and the others at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  " + "  ".join([first.ljust(widths[0]), *cells])
