"""The lists that a site would show, before and after the text gate and the acceptance model.

`python -m research first-lists WORK NAME LOG...` prepares one log, trains HRED, fits adjacency,
blends both and measures the lists of all of them for requests that no model has seen. NAME is one
of `STUDIES`; `synthetic` takes no LOG. Of AOL's logs `sessions-1000` takes the first hours, and
`edu-sites` the searches that led to universities, like those of one site.
`before` is `quality=false`. It keeps what is finished in WORK/NAME and replaces the entry NAME of
docs/results/first_lists.json. Only aggregates are written.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nextquery.evaluation.comparison import paired_t_test_by_user
from nextquery.evaluation.lists import SHOWN, ListMaker, suggest_all, text_quality
from nextquery.guard.guard import Guard
from nextquery.inference.acceptance import terms_of
from nextquery.inference.gate import most_frequent
from nextquery.inference.settings import DecodeConfig
from nextquery.logs.data_folder import PreparedData
from nextquery.records import Session, Suggestion
from nextquery.suggesters.base import Decoding
from nextquery.suggesters.loading import load
from nextquery.suggesters.popularity import DropWords, Popularity
from research.aol import LAST_WEEKS
from research.commands import make, save
from research.tables import RESULTS, read

REQUESTS = 2000
TIMED = 40
FIRST_ROWS = 6200
"""Of AOL's logs about 1,000 sessions of two or more queries."""
ROUNDS = 3
RULE = "drop words"
SYSTEMS = ("hred", "blend")
KINDS = ("frequent", "junk", "session words", "new words")
"""One of the log's most frequent queries; text with a flaw; others by their words."""
HELD_OUT = ("--split-at", LAST_WEEKS[1], "--holdout-users", "0.1")


@dataclass(frozen=True)
class Study:
    """A log and how it is prepared and learnt from."""

    config: str
    epochs: int
    prepare: Sequence[str] = ()
    splits: Sequence[str] = ("test",)
    synth: Sequence[str] = ()
    """Options of `nextquery synth`; none: logs are given."""


STUDIES: Mapping[str, Study] = {
    "aol": Study("small", 4, HELD_OUT, ("test", "unseen_users")),
    "excite": Study("tiny", 10),
    "sessions-1000": Study("tiny", 10),
    "edu-sites": Study("tiny", 10),
    "synthetic": Study("tiny", 6, synth=("--sessions", "20000", "--seed", "3")),
}


def study(work: Path, name: str, logs: Sequence[Path]) -> None:
    """Make the models of one study, measure them and write the result."""
    if name not in STUDIES:
        raise SystemExit(f"{name}: not one of {', '.join(STUDIES)}")
    settings, folder = STUDIES[name], work / name
    folder.mkdir(parents=True, exist_ok=True)
    data, models = _models(folder, settings, _logs(folder, name, logs))
    document = read("first_lists") if (RESULTS / "first_lists.json").exists() else {}
    document[name] = {
        "date": date.today().isoformat(),
        "log": _described(data),
        "visitors": {split: measured(data, models, split) for split in settings.splits},
    }
    save("first_lists", {key: document[key] for key in STUDIES if key in document})


def _logs(folder: Path, name: str, logs: Sequence[Path]) -> Sequence[Path]:
    """The log files of a study, made where they are not given."""
    log = folder / "log.tsv"
    if STUDIES[name].synth:
        make(log, ["synth", str(log), *STUDIES[name].synth])
        return [log]
    if not logs:
        raise SystemExit(f"{name}: which LOGs?")
    if name in SUBSETS and not log.exists():
        SUBSETS[name](_rows(logs)).write_csv(log, separator="\t")
    return [log] if log.exists() else logs


def _rows(logs: Sequence[Path]) -> pl.DataFrame:
    """The rows of logs in AOL's format."""
    tables = [pl.read_csv(log, separator="\t", quote_char=None, infer_schema=False) for log in logs]
    return pl.concat(tables)


def first_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Those of the first hours."""
    return rows.sort("QueryTime", maintain_order=True).head(FIRST_ROWS)


def clicked_on_universities(rows: pl.DataFrame) -> pl.DataFrame:
    """Those whose click went to a host under `.edu`."""
    return rows.filter(pl.col("ClickURL").str.contains(r"^https?://[^/]*\.edu(/|$)"))


SUBSETS = {"sessions-1000": first_rows, "edu-sites": clicked_on_universities}
"""What a study takes of AOL's logs, if not all."""


def _models(
    folder: Path, settings: Study, logs: Sequence[Path]
) -> tuple[PreparedData, dict[str, Path]]:
    data, hred, adjacency, blend = (
        folder / part for part in ("data", "hred", "adjacency", "blend")
    )
    make(data, ["prepare", *map(str, logs), "--out", str(data), *settings.prepare])
    sets = [f"--set=train.epochs={settings.epochs}", "--set=train.validation_sessions=1000"]
    make(hred, ["train", str(data), "--out", str(hred), "--config", settings.config, *sets])
    make(adjacency, ["fit", str(data), "--kind", "adjacency", "--out", str(adjacency)])
    parts = [str(hred), str(adjacency), "--data", str(data), "--out", str(blend)]
    make(blend, ["blend", *parts])
    popularity = folder / "popularity"
    make(popularity, ["fit", str(data), "--kind", "popularity", "--out", str(popularity)])
    paths = (hred, adjacency, blend, popularity)
    return PreparedData(data), {path.name: path for path in paths}


def _described(data: PreparedData) -> dict[str, Any]:
    counts = data.artifact.manifest["counts"]
    known = data.counts("queries").filter(pl.col("users") >= data.min_users).select(pl.len())
    return {
        "users": counts["users"],
        "searches": sum(counts["searches"].values()),
        "background_sessions": counts["sessions"]["background"],
        "known_queries": int(known.collect().item()),
        "min_users": data.min_users,
    }


@dataclass(frozen=True)
class Configured:
    """A model that decodes under one config."""

    model: Decoding
    config: DecodeConfig

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """A list under the config."""
        return self.model.suggest(context, n, config=self.config)

    def suggest_many(self, contexts: Sequence[Sequence[str]], n: int = 5) -> list[list[Suggestion]]:
        """Lists under the config."""
        return self.model.suggest_many(contexts, n, config=self.config)


def measured(data: PreparedData, models: Mapping[str, Path], split: str) -> dict[str, Any]:
    """The lists of every system for the last requests of sessions of a split."""
    sessions = drawn(data, split)
    contexts = [session.queries[:-1] for session in sessions]
    wanted = [session.queries[-1] for session in sessions]
    users = [session.user for session in sessions]
    guard = Guard.open(models["hred"])
    frequent = most_frequent(guard.tables)
    informational = np.array([query not in frequent for query in wanted], dtype=np.bool_)
    rows: dict[str, Any] = {}
    reciprocal: dict[str, Any] = {}
    makers = _makers(models)
    for name, maker in makers.items():
        lists = suggest_all(maker, contexts, iter)
        ranks = [
            texts.index(query) + 1 if query in texts else np.inf
            for texts, query in zip(lists, wanted, strict=True)
        ]
        values = reciprocal[name] = 1.0 / np.array(ranks)
        rows[name] = {
            "coverage": float(np.mean([bool(texts) for texts in lists])),
            "mrr": float(values.mean()),
            "mrr_informational": float(values[informational].mean()) if informational.any() else 0,
            "hit_5": float((values >= 1 / SHOWN).mean()),
            **asdict(text_quality(lists, contexts, guard)),
            "by_kind": by_kind(lists, contexts, wanted, guard),
        }
        shown = {key: value for key, value in rows[name].items() if key != "by_kind"}
        print(split, name, json.dumps({key: round(value, 4) for key, value in shown.items()}))

    def compared(one: str, other: str) -> dict[str, float]:
        result = {}
        for title, mask in (("mrr", informational | True), ("mrr_informational", informational)):
            chosen = [user for user, is_in in zip(users, mask, strict=True) if is_in]
            pair = reciprocal[one][mask], reciprocal[other][mask]
            result[title] = float((pair[0] - pair[1]).mean()) if len(chosen) else 0.0
            result[f"{title}_p"] = paired_t_test_by_user(*pair, chosen) if len(chosen) > 1 else 1.0
        return result

    return {
        "requests": len(sessions),
        "users": len(set(users)),
        "systems": rows,
        "after_less_before": {
            name: compared(f"{name}, after", f"{name}, before") for name in SYSTEMS
        },
        "after_less_drop_words": {name: compared(f"{name}, after", RULE) for name in SYSTEMS},
        "cpu_ms": _cpu_ms({name: makers[name] for name in makers if "," in name}, contexts),
    }


def by_kind(
    lists: Sequence[Sequence[str]],
    contexts: Sequence[Sequence[str]],
    wanted: Sequence[str],
    guard: Guard,
) -> dict[str, dict[str, float]]:
    """For each kind of suggestion its places per list, its hits and its part of the MRR."""
    frequent = most_frequent(guard.tables)
    places: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    mrr: defaultdict[str, float] = defaultdict(float)
    for texts, context, next_query in zip(lists, contexts, wanted, strict=True):
        own_text = guard.own_text(context)
        session_terms = frozenset[str]().union(*map(terms_of, context))
        for rank, text in enumerate(texts, start=1):
            if text in frequent:
                kind = "frequent"
            elif guard.flaw(text, own_text) is not None:
                kind = "junk"
            elif terms_of(text) <= session_terms:
                kind = "session words"
            else:
                kind = "new words"
            places[kind] += rank <= SHOWN
            if text == next_query:
                hits[kind] += rank <= SHOWN
                mrr[kind] += 1 / rank
    return {
        kind: {
            "places": places[kind] / len(lists),
            "hit_5": hits[kind] / len(lists),
            "mrr": mrr[kind] / len(lists),
        }
        for kind in KINDS
    }


def drawn(data: PreparedData, split: str) -> list[Session]:
    """Sessions of a split, drawn at random."""
    sessions = list(data.sessions(split))
    chosen = np.sort(np.random.default_rng(17).permutation(len(sessions))[:REQUESTS])
    return [sessions[index] for index in chosen]


def _makers(models: Mapping[str, Path]) -> dict[str, ListMaker]:
    """All systems by name."""
    popularity = load(models["popularity"])
    assert isinstance(popularity, Popularity)
    makers: dict[str, ListMaker] = {
        "popularity": popularity,
        RULE: DropWords(popularity),
        "adjacency": load(models["adjacency"]),
    }
    for name in SYSTEMS:
        model = load(models[name])
        assert isinstance(model, Decoding)
        plain = model.config.model_copy(update={"quality": False})
        makers[f"{name}, before"] = Configured(model, plain)
        makers[f"{name}, after"] = Configured(model, model.config)
    return makers


def _cpu_ms(
    makers: Mapping[str, ListMaker], contexts: Sequence[tuple[str, ...]]
) -> dict[str, float]:
    """CPU milliseconds of a list of five, systems in turns: the lowest mean of some rounds."""
    best = dict.fromkeys(makers, float("inf"))
    some = contexts[:TIMED]
    for _ in range(ROUNDS):
        for name, maker in makers.items():
            start = time.process_time()
            for context in some:
                maker.suggest(context, SHOWN)
            best[name] = min(best[name], 1000 * (time.process_time() - start) / max(1, len(some)))
    return best
