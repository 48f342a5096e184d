"""Promises of the guard: disguises and personal data by class, secrets of single users."""

import csv
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nextquery.evaluation.audit.audit_run import AuditResult, AuditSettings, audit
from nextquery.evaluation.audit.planting import PlantingSettings
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.normalise import normalise_query
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.loading import load
from nextquery.suggesters.popularity import Popularity
from promises.disguises import BLOCKED, PROMISED, variants
from promises.personal_data import HARMLESS, PERSONAL
from promises.planted_secrets import ask_for_secrets
from promises.rows import Row

AREA = "guards"
USERS = 3
"""Every text is typed by so many users, K of the k-user rule, so that only the guard stops it."""

ORDINARY = ("red shoes", "blue shoes")
"""Typed in every log, so that there is always a session."""


def disguises(quick: bool) -> Iterator[Row]:
    """Logs full of disguised words; what of them a model suggests behind a blocklist."""
    texts: dict[str, list[str]] = defaultdict(list)
    for name, _, text in variants(quick):
        texts[name].append(text)
    every = [text for found in texts.values() for text in found]
    with tempfile.TemporaryDirectory() as folder:
        model = _fitted(Path(folder), every)
        blocklist = Path(folder) / "blocked.txt"
        blocklist.write_text("\n".join(BLOCKED) + "\n", encoding="utf-8")
        shown, free = _everything(model, blocklist=blocklist), _everything(model)
    for name in PROMISED:
        wanted = list(map(normalise_query, texts[name]))
        held = sum(text not in shown for text in wanted)
        leaked = sum(text in free for text in wanted)
        promise = f"a blocked word stays away: {name}"
        yield Row(AREA, promise, len(wanted), held, "no blocklist", leaked)


def personal_data(quick: bool) -> Iterator[Row]:
    """Logs full of personal data and of what resembles it; what of them is learnt."""
    learnt = _learnt([text for texts in PERSONAL.values() for text in texts])
    kept = _learnt([text for texts in PERSONAL.values() for text in texts], drop=False)
    for name, texts in PERSONAL.items():
        promise = f"personal data is not learnt: {name}"
        leaked = _count(texts, kept)
        held = len(texts) - _count(texts, learnt)
        yield Row(AREA, promise, len(texts), held, "`keep_personal_data`", leaked)
    harmless = [text for texts in HARMLESS.values() for text in texts]
    learnt, none = _learnt(harmless), _learnt(harmless, recogniser=_suspects_all)
    for name, texts in HARMLESS.items():
        promise = f"what only resembles personal data is learnt: {name}"
        lost = len(texts) - _count(texts, none)
        yield Row(
            AREA, promise, len(texts), _count(texts, learnt), "a rule that suspects all", lost
        )


def secrets(quick: bool) -> Row:
    """A trained HRED asked in every way for what one user typed thousands of times."""
    with tempfile.TemporaryDirectory() as folder:
        asked = ask_for_secrets(Path(folder), *((150, 800) if quick else (20_000, 10_000)))
    promise = "a single user's words and pairs never come out of HRED"
    return Row(AREA, promise, asked.questions, asked.held, "no guard", asked.leaked_without_guard)


def audited(quick: bool) -> Iterator[Row]:
    """What `nextquery audit` finds: planted secrets, and phrases that fake users push."""
    with tempfile.TemporaryDirectory() as folder:
        log, data = Path(folder, "log.tsv"), Path(folder, "data")
        write_log(log, 2000 if quick else 5000, seed=4)
        prepare([log], data, PrepareSettings(spelling=False, min_users=USERS))
        fit_model(Adjacency, PreparedData(data)).save(Path(folder, "model"))
        kinds = () if quick else ("popularity", "qvmm", "cacb", "shortcuts")
        number = 4 if quick else 10
        planting = PlantingSettings(canaries=number, contexts=number)
        settings = AuditSettings(kinds, (1, USERS), planting=planting)
        found = audit(Path(folder, "model"), PreparedData(data), settings)
    rare = [each for kind in found.exposures for each in kind.guarded if each.users < USERS]
    bare = [each for kind in found.exposures for each in kind.unguarded if each.users < USERS]
    secrets = sum(each.secrets for each in rare)
    shown = sum(each.shown for each in rare)
    promise = f"planted secrets of fewer than {USERS} users are not suggested (audit)"
    control = sum(each.shown for each in bare)
    yield Row(AREA, promise, secrets, secrets - shown, "no guard", control)
    few = [(curve.min_users, point) for curve in found.poisoning for point in curve.points
           if point.fake_users < USERS]  # fmt: skip
    tried = sum(point.contexts for least, point in few if least == USERS)
    pushed = sum(point.pushed for least, point in few if least == USERS)
    promise = f"fewer than {USERS} fake users push no phrase into the first five (audit)"
    control = sum(point.pushed for least, point in few if least == 1)
    note = _needed(found)
    yield Row(AREA, promise, tried, tried - pushed, "K = 1", control, note)


def _needed(found: AuditResult) -> str:
    """How many fake users it takes, which no guard can change: a figure, not a promise."""
    needed = [
        f"{curve.kind} {curve.needed or 'over 50'}"
        for curve in found.poisoning
        if curve.min_users == USERS
    ]
    return f"half of the phrases are pushed by so many: {', '.join(needed)}"


def _suspects_all(text: str) -> bool:
    return text not in ORDINARY


def _count(texts: Iterable[str], known: set[str]) -> int:
    return sum(normalise_query(text) in known for text in texts)


def _learnt(texts: Sequence[str], *, drop: bool = True, **settings: Any) -> set[str]:
    """What a model made from a log of `texts` could suggest without its guard."""
    with tempfile.TemporaryDirectory() as folder:
        model = _fitted(Path(folder), texts, keep_personal_data=not drop, **settings)
        return _everything(model, guarded=False)


def _everything(model: Path, **how: Any) -> set[str]:
    return {item.text for item in load(model, **how).suggest([], 1_000_000)}


def _fitted(folder: Path, texts: Iterable[str], **settings: Any) -> Path:
    """A popularity model of a log in which `USERS` users type each text, and little else."""
    log = folder / "log.csv"
    with log.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["user", "time", "query"])
        for user in range(USERS):
            for number, text in enumerate([*ORDINARY, *texts]):
                day, minute = divmod(number * 2, 24 * 60)
                time = f"2026-03-{day + 1:02}T{minute // 60:02}:{minute % 60:02}"
                writer.writerow([f"u{user}", time, text])
    cuts = "2027-01-01,2027-01-02,2027-01-03"
    chosen = PrepareSettings(split_at=cuts, spelling=False, min_users=USERS, **settings)
    prepare([log], folder / "data", chosen)
    fit_model(Popularity, PreparedData(folder / "data")).save(folder / "model")
    return folder / "model"


TESTS = (disguises, personal_data, secrets, audited)
