"""Drift: what changed between two states of a log, and whether a served model still fits.

`OLD` is the folder that the model was made of, or that of another day; the new sessions are those
of `NEW` after the last query of `OLD`. A model is asked how likely the queries of sessions are: per
symbol, on new sessions and on the held-out ones of `OLD`, both with the same number of sessions.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from nextquery.errors import InputError
from nextquery.evaluation.check import compare_with_rules, score_queries
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Scorer
from nextquery.suggesters.loading import load

UNKNOWN_RISE = 0.02
"""Retrain when the share of unknown words rises by this much."""
PERPLEXITY_RISE = 1.1
"""Retrain when a model's perplexity is this many times that on its own held-out sessions."""
SESSIONS = 1000
_NAMED = 10


@dataclass(frozen=True)
class Change:
    """A word or query with how many people typed it in the folder that has it."""

    text: str
    users: int


@dataclass(frozen=True)
class ModelFit:
    """How well a model predicts sessions: the perplexity per symbol, ends of queries included."""

    model: str
    kind: str
    new: float
    old: float
    sessions: int
    mrr: Mapping[str, float]
    """On new sessions: of the model and of the rules of `nextquery check`."""
    worse_than: tuple[str, ...]
    """The rules that predict new sessions better, over users."""

    @property
    def ratio(self) -> float:
        """How much worse the new sessions are predicted; 1 is as well as ever."""
        return self.new / self.old


@dataclass(frozen=True)
class Drift:
    """What changed, and what follows."""

    new_sessions: int
    since: str
    """The time of the last query of the old folder."""
    new_words: int
    frequent_new_words: tuple[Change, ...]
    vanished_queries: int
    """Known queries of the old folder that the new one does not know."""
    vanished_share: float
    """Their share of what was typed in the old folder's known queries."""
    frequent_vanished: tuple[Change, ...]
    unknown_words: float
    """The share of the words of new sessions that the old vocabulary lacks."""
    unknown_before: float
    """The same of the old folder's own held-out sessions."""
    unknown_queries: float
    """The share of the queries of new sessions that the old folder does not know."""
    fit: ModelFit | None
    reasons: tuple[str, ...]
    """Why to retrain; none: there is no need."""

    @property
    def retrain(self) -> bool:
        """Whether it is time to retrain."""
        return bool(self.reasons)


def drift(new: PreparedData, old: PreparedData, model: Path | None = None) -> Drift:
    """Compare two data folders and a served model with the newer one."""
    since = _last_time(old)
    fresh = _rows(new).filter(pl.col("time") > since).collect()
    if fresh.is_empty():
        raise InputError(
            f"{new.path}: has no query after {since:%Y-%m-%d %H:%M}, the last one of {old.path}; "
            "give the newer folder first"
        )
    held_out = _held_out(old)
    before, after = (_unknown_words(rows, old) for rows in (held_out, fresh))
    known = fresh.join(old.counts("queries").select("query").collect(), on="query", how="semi")
    words = _only_in(new, old, "words", "word")
    vanished = _only_in(old, new, "queries", "query")
    typed = old.counts("queries").select(pl.col("count").sum()).collect().item()
    fit = None if model is None else _fit(model, old, fresh, held_out)
    return Drift(
        new_sessions=fresh["session"].n_unique(),
        since=since.isoformat(),
        new_words=len(words),
        frequent_new_words=_named(words, "word"),
        vanished_queries=len(vanished),
        vanished_share=float(vanished["count"].sum()) / typed if typed else 0.0,
        frequent_vanished=_named(vanished, "query"),
        unknown_words=after,
        unknown_before=before,
        unknown_queries=1 - len(known) / len(fresh),
        fit=fit,
        reasons=tuple(_reasons(before, after, fit)),
    )


def _reasons(before: float, after: float, fit: ModelFit | None) -> Iterator[str]:
    if after - before > UNKNOWN_RISE:
        yield f"{after:.1%} of the words are unknown, {before:.1%} were"
    if fit is None:
        return
    if fit.ratio > PERPLEXITY_RISE:
        yield f"perplexity {fit.new:,.1f} on new sessions, {fit.old:,.1f} on earlier ones"
    for rule in fit.worse_than:
        yield f"MRR {fit.mrr['model']:.4f} on new sessions, {rule} has {fit.mrr[rule]:.4f}"


def _rows(data: PreparedData) -> pl.LazyFrame:
    return pl.concat([data.session_rows(split) for split in data.splits])


def _last_time(data: PreparedData) -> datetime:
    last: Any = _rows(data).select(pl.col("time").max()).collect().item()
    if last is None:
        raise InputError(f"{data.path}: has no sessions to compare with")
    return datetime.fromisoformat(str(last))


def _held_out(data: PreparedData) -> pl.DataFrame:
    """The latest split with sessions that no model learns from; else the background."""
    for split in ("test", "validation"):
        if split in data.splits and len(rows := data.session_rows(split).collect()):
            return rows
    return data.session_rows("background").collect()


def _unknown_words(rows: pl.DataFrame, old: PreparedData) -> float:
    words = rows.select(word=pl.col("query").str.split(" ")).explode("word")
    known = words.join(pl.DataFrame({"word": old.words()}), on="word", how="semi")
    return 1 - len(known) / max(1, len(words))


def _only_in(data: PreparedData, other: PreparedData, table: str, key: str) -> pl.DataFrame:
    """The rows of a count table whose text the other folder's table lacks, frequent first."""
    other_keys = other.counts(table).select(key)
    return data.counts(table).join(other_keys, on=key, how="anti", maintain_order="left").collect()


def _named(rows: pl.DataFrame, key: str) -> tuple[Change, ...]:
    """The most frequent of them; all were typed by at least K people."""
    return tuple(Change(*row) for row in rows.head(_NAMED).select(key, "users").iter_rows())


def _fit(
    model: Path, old_data: PreparedData, fresh: pl.DataFrame, held_out: pl.DataFrame
) -> ModelFit:
    suggester = load(model)
    mrr, worse_than = compare_with_rules(suggester, old_data, fresh, SESSIONS)
    both = [_sampled(rows) for rows in (fresh, held_out)]
    number = min(map(len, both))
    new, old = (perplexity(suggester, sessions[:number]) for sessions in both)
    return ModelFit(str(model), suggester.kind, new, old, number, mrr, worse_than)


def _sampled(rows: pl.DataFrame) -> list[tuple[str, ...]]:
    """At most 1,000 sessions of two or more queries, drawn at random."""
    sessions = (
        rows.sort("session", "position")
        .group_by("session", maintain_order=True)
        .agg("query")
        .filter(pl.col("query").list.len() > 1)
    )
    drawn = sessions.sample(min(SESSIONS, len(sessions)), seed=0, shuffle=True)
    return [tuple(queries) for queries in drawn["query"]]


def perplexity(model: Scorer, sessions: Iterable[Sequence[str]]) -> float:
    """Per symbol of every query but the first, each given those before it."""
    cases = [
        (session[:position], session[position])
        for session in sessions
        for position in range(1, len(session))
    ]
    scored = score_queries(model, [context for context, _ in cases], [query for _, query in cases])
    symbols = sum(score.words for score in scored)
    total = sum(score.log_likelihood for score in scored)
    return math.exp(-total / symbols) if symbols else math.nan
