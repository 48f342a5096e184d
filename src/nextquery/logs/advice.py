"""What to do with a log of this size: which settings and models are worth it, and why.

Rules of thumb with their reasons, for `nextquery init` and `inspect`; measured where docs say so.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from nextquery.logs.data_folder import PreparedData
from nextquery.logs.facts import LogFacts

FEW_KNOWN = 0.25
"""Below this share of known test queries, counts rarely have anything to say."""
HRED_SESSIONS = 20_000
"""Background sessions from which a trained model has enough to learn from."""
EXPERIMENT_SESSIONS = 500
"""Test sessions below which differences between models cannot be told from chance."""


@dataclass(frozen=True)
class Advice:
    """One thing to know or do, and why."""

    text: str
    command: str = ""
    """What follows `nextquery` on the command line, if there is something to run."""


def advise(data: PreparedData, facts: LogFacts) -> tuple[Advice, ...]:
    """What to know and do about a prepared log."""
    return (*problems(data, facts), *_models(data, facts))


def problems(data: PreparedData, facts: LogFacts) -> Iterator[Advice]:
    """What a prepared log lacks, and what to do about it."""
    yield from _too_little_known(data, facts.repetition.seen_before.get("test", 0.0), "later")
    tested = facts.counts["sessions"].get("test", 0)
    if tested < EXPERIMENT_SESSIONS:
        yield Advice(
            f"{tested:,} test sessions are too few to tell models apart; "
            "collect more days before you trust an experiment.",
        )
    if not has_clicks(data):
        yield Advice(
            "The log has no clicks: Search Shortcuts takes every session's end for a good one.",
        )


def emptiness(data: PreparedData) -> Iterator[Advice]:
    """Why a count model of this log would be empty or nearly so; quickly found."""
    known = data.counts("queries").select(pl.col("count").sum()).collect().item()
    every = data.session_rows("background").select(pl.len()).collect().item()
    yield from _too_little_known(data, known / every if every else 0.0, "the background's")


def has_clicks(data: PreparedData) -> bool:
    """Whether anything was clicked in the background."""
    return not data.counts("clicks").head(1).collect().is_empty()


def _too_little_known(data: PreparedData, known: float, whose: str) -> Iterator[Advice]:
    if not data.counts("queries").head(1).collect().height:
        yield Advice(
            f"No query was typed by {data.min_users} users: every count model would be empty. "
            "Prepare it again with `min_users=1`, if everybody whose queries these are agreed.",
        )
    elif known < FEW_KNOWN and data.min_users > 1:
        yield Advice(
            f"Only {known:.1%} of {whose} queries are known: the log is small. A lower "
            f"`min_users` than {data.min_users} keeps more of it, and shows what fewer people "
            "typed.",
        )


def _models(data: PreparedData, facts: LogFacts) -> Iterator[Advice]:
    background = facts.counts["sessions"]["background"]
    yield Advice(
        "Adjacency shows what usually follows a query: at once, from any log.",
        "fit DATA --kind adjacency --out adjacency",
    )
    if has_clicks(data):
        yield Advice(
            "Search Shortcuts finds similar sessions that ended in a click, and so helps where a "
            "query was never seen.",
            "fit DATA --kind shortcuts --out shortcuts",
        )
    else:
        yield Advice(
            "Search Shortcuts finds similar sessions, and so helps where a query was never seen.",
            "fit DATA --kind shortcuts --out shortcuts",
        )
    if background >= HRED_SESSIONS:
        yield Advice(
            f"{background:,} background sessions are enough to train HRED, which suggests for "
            "queries and sessions that counts have never seen.",
            "train DATA --out model --config small",
        )
    else:
        yield Advice(
            f"{background:,} background sessions are few for HRED (about {HRED_SESSIONS:,} are "
            "needed); try the smallest config and compare.",
            "train DATA --out model --config tiny",
        )
