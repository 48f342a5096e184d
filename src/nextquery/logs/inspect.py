"""Statistics of a prepared log, and advice on settings and models for its size."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nextquery.artifacts import replaced_file
from nextquery.logs.cleaning import PSEUDONYM, ROWS
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.sessions import UserLimit
from nextquery.logs.settings import PrepareSettings

FOLLOWERS_NEEDED = (20, 5)
"""The paper takes anchors with 20 followers; small logs also look at 5."""


@dataclass(frozen=True)
class Lengths:
    """Shares of sessions of 2, of 3 or 4, and of 5 or more queries (the paper's Figure 4)."""

    short: float
    medium: float
    long: float


@dataclass(frozen=True)
class Repetition:
    """How often queries come back."""

    repeated_in_background: float
    """Share of the background's searches whose text occurs more than once there."""
    seen_before: Mapping[str, float]
    """Share of each later split's searches whose text occurs in the background."""
    sessions_with_a_return: float
    """Share of background sessions that come back to an earlier query."""


@dataclass(frozen=True)
class LogFacts:
    """Everything `nextquery inspect` shows."""

    counts: Mapping[str, Any]
    lengths: Mapping[str, Lengths]
    repetition: Repetition
    anchors_with_followers: Mapping[str, Mapping[int, float]]
    """Per split but the background: share of sessions whose anchor has at least N followers."""
    frequent_queries: tuple[tuple[str, int, int], ...]
    """Text, count and users of the most frequent queries that enough users typed."""


def describe(data: PreparedData, frequent: int = 10) -> LogFacts:
    """The facts of a prepared log."""
    later = [split for split in data.splits if split != "background"]
    return LogFacts(
        counts=data.artifact.manifest["counts"],
        lengths={split: _lengths(data, split) for split in data.splits},
        repetition=_repetition(data, later),
        anchors_with_followers={split: _with_followers(data, split) for split in later},
        frequent_queries=tuple(
            data.counts("queries").head(frequent).select("query", "count", "users").collect().rows()
        ),
    )


def _share(matching: pl.Expr) -> pl.Expr:
    """The share of rows for which `matching` is true; 0 without rows."""
    return matching.cast(pl.Float64).mean().fill_null(0.0)


def _lengths(data: PreparedData, split: str) -> Lengths:
    sizes = data.session_rows(split).group_by("session").agg(size=pl.len()).collect()
    size = pl.col("size")
    shares = sizes.select(
        short=_share(size == 2), medium=_share(size.is_between(3, 4)), long=_share(size >= 5)
    )
    return Lengths(**shares.row(0, named=True))


def _repetition(data: PreparedData, later: list[str]) -> Repetition:
    background = data.session_rows("background")
    counts = data.search_rows("background").group_by("query").agg(count=pl.len()).collect()
    count = pl.col("count")
    repeated = counts.select(count.filter(count > 1).sum() / count.sum()).item()
    sessions = background.group_by("session").agg(returns=pl.col("query").n_unique() < pl.len())
    typed_queries = counts.lazy().select("query", known=True)
    seen = {
        split: data.search_rows(split)
        .join(typed_queries, on="query", how="left")
        .select(_share(pl.col("known").fill_null(False)))
        .collect()
        .item()
        for split in later
    }
    returning = sessions.select(_share(pl.col("returns"))).collect().item()
    return Repetition(repeated, seen, returning)


def _with_followers(data: PreparedData, split: str) -> dict[int, float]:
    followers = data.counts("followers").group_by("anchor").agg(followers=pl.len())
    anchors = (
        data.session_rows(split)
        .group_by("session", maintain_order=True)
        .agg(anchor=pl.col("query").get(-2))
        .join(followers, on="anchor", how="left")
        .select(pl.col("followers").fill_null(0))
        .collect()
    )
    return {
        needed: anchors.select(_share(pl.col("followers") >= needed)).item()
        for needed in FOLLOWERS_NEEDED
    }


def draw_lengths(facts: LogFacts, file: Path) -> None:
    """Draw the shares of short, medium and long sessions of every split as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    names = list(facts.lengths)
    kinds = {"short": "2", "medium": "3 or 4", "long": "5 or more"}
    for offset, (kind, label) in enumerate(kinds.items()):
        heights = [100 * getattr(facts.lengths[name], kind) for name in names]
        xs = [index + 0.27 * (offset - 1) for index in range(len(names))]
        bars = axes.bar(xs, heights, width=0.25, label=label)
        axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set_xticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.set_ylabel("sessions (%)")
    axes.set_title("Session length by split")
    figure.legend(title="queries", frameon=False, loc="outside right upper")
    axes.spines[["top", "right"]].set_visible(False)
    with replaced_file(file) as stream:
        figure.savefig(stream, dpi=150, format="png")


FEW_KNOWN = 0.25
"""Below this share of known searches, counts rarely have anything to say."""
HRED_SESSIONS = 20_000
"""Background sessions from which a trained model has enough to learn from."""
EXPERIMENT_SESSIONS = 500
"""Test sessions below which differences between models cannot be distinguished from chance."""


@dataclass(frozen=True)
class Advice:
    """One thing to know or do, and why."""

    text: str
    command: str = ""
    """What follows `nextquery` on the command line, if there is something to run."""


def advise(data: PreparedData, facts: LogFacts) -> tuple[Advice, ...]:
    """What to know and do about a prepared log."""
    sessions = facts.counts["sessions"]["background"]
    clicks = " that ended in a click" if has_clicks(data) else ""
    if sessions >= HRED_SESSIONS:
        neural = Advice(
            f"{sessions:,} background sessions are enough to train HRED, which suggests for "
            "queries and sessions that counts have never seen.",
            "train DATA --out model --config small",
        )
    else:
        neural = Advice(
            f"{sessions:,} background sessions are few for HRED (about {HRED_SESSIONS:,} are "
            "needed); try the smallest config and compare.",
            "train DATA --out model --config tiny",
        )
    return (
        *problems(data, facts),
        Advice(
            "Adjacency shows what usually follows a query: at once, from any log.",
            "fit DATA --kind adjacency --out adjacency",
        ),
        Advice(
            f"Search Shortcuts finds similar sessions{clicks}, and so helps where a query was "
            "never seen.",
            "fit DATA --kind shortcuts --out shortcuts",
        ),
        neural,
    )


def problems(data: PreparedData, facts: LogFacts) -> Iterator[Advice]:
    """What is wrong with a prepared log or missing in it, and what to do about it."""
    yield from dominance(data)
    tested = facts.counts["sessions"].get("test", 0)
    yield from emptiness(data, "test" if tested and "test" in data.splits else "background")
    if tested < EXPERIMENT_SESSIONS:
        yield Advice(
            f"{tested:,} test sessions are too few to tell models apart; "
            "collect more days before you trust an experiment."
        )
    if not has_clicks(data):
        yield Advice(
            "The log has no clicks: Search Shortcuts takes every session's end for a good one."
        )


def dominance(data: PreparedData) -> Iterator[Advice]:
    """Visitors and queries that would decide lists alone, placeholders, and users without a past.

    Visitors are named by the pseudonyms that `exclude_users` takes, queries only if at least K
    users typed them.
    """
    # Every accepted row, before bots and repeats are left out.
    if ROWS in data.artifact.manifest["files"]:
        rows = pl.scan_parquet(data.file(ROWS), glob=False).filter(pl.col("drop").is_null())
    else:
        rows = pl.concat([data.search_rows(split) for split in data.splits])
    sizes = rows.group_by("user").agg(rows=pl.len().cast(pl.Int64)).collect(engine="streaming")
    total, users = int(sizes["rows"].sum()), len(sizes)
    if total >= _ENOUGH_ROWS and users > _ALL_DIFFERENT * total:
        yield Advice(
            f"{users:,} users in {total:,} rows: nearly every row has a user of its own, so that "
            "there are no sessions. Choose the column that stays the same through a visit with "
            "`columns=user=...,time=...,query=...`."
        )
        return
    settings = data.artifact.entry("settings")
    excluded = set(settings.get("exclude_users", ()))
    share = settings.get("max_user_share", PrepareSettings.max_user_share)
    repeats = settings.get("max_user_repeats", PrepareSettings.max_user_repeats)
    most = UserLimit(repeats, share).searches(total, users)
    large = sizes.filter(pl.col("rows") > most).sort("rows", "user", descending=[True, False])
    for user, count in large.head(_NAMED).iter_rows():
        if f"{PSEUDONYM}{user}" not in excluded:
            yield Advice(
                f"One visitor has {count / total:.1%} of the rows ({count:,}; the mean is "
                f"{total / users:.1f}): a shared address, a monitor or staff? To leave it out, "
                f"write {PSEUDONYM}{user} into a file for `exclude_users`."
            )
    yield from _one_visitor_queries(data, rows)


def _one_visitor_queries(data: PreparedData, rows: pl.LazyFrame) -> Iterator[Advice]:
    """Frequent queries that one visitor typed most of the time, and placeholders."""
    by_user = rows.group_by("query", "user").agg(rows=pl.len().cast(pl.Int64))
    queries = (
        by_user.sort("rows", "user", descending=[True, False])
        .group_by("query")
        .agg(
            pl.col("rows").sum(),
            pl.col("user").first(),
            pl.len().alias("users"),
            top=pl.col("rows").first(),
        )
        .filter(
            (pl.col("users") >= data.min_users)
            & (pl.col("rows") >= _FREQUENT)
            & ((pl.col("top") > _MOSTLY * pl.col("rows")) | pl.col("query").is_in(PLACEHOLDERS))
        )
        .sort("rows", "query", descending=[True, False])
        .head(_NAMED)
        .collect(engine="streaming")
    )
    settings = data.artifact.entry("settings")
    columns = settings.get("columns") or {}
    column = columns.get("query", "Query" if settings.get("format") == "aol" else "query")
    for query, count, user, users, top in queries.iter_rows():
        if query in PLACEHOLDERS:
            judgement = "looks like the label of a search box"
            advice = f"`where={column}!={query}` leaves it out"
        else:
            judgement = "is mostly one visitor's"
            advice = f"{PSEUDONYM}{user} in a file for `exclude_users` leaves that visitor out"
        yield Advice(
            f"The query {query!r} {judgement}: {count:,} rows of {users:,} users, {top:,} of them "
            f"by one visitor. {advice}."
        )


PLACEHOLDERS = (
    *("search", "search here", "search site", "search this site", "site search", "type here"),
    *("enter search", "enter search term", "enter search terms", "enter keyword", "query"),
    *("enter keywords", "keyword", "keywords", "find", "suche", "suchen", "suchbegriff"),
    *("suchbegriff eingeben", "recherche", "rechercher", "buscar", "busqueda", "busca"),
    *("pesquisar", "cerca", "zoeken", "szukaj", "sok", "hledat", "поиск", "найти"),
)
"""Labels of search boxes, normalised."""
_ENOUGH_ROWS, _ALL_DIFFERENT = 100, 0.9
_NAMED = 3
_FREQUENT, _MOSTLY = 20, 0.5


def has_clicks(data: PreparedData) -> bool:
    """Whether anything was clicked in the background."""
    return not data.counts("clicks").head(1).collect().is_empty()


def emptiness(data: PreparedData, split: str = "background") -> Iterator[Advice]:
    """Whether too few searches of a split are of known queries, and what a lower K would change.

    A count model of such a log would be empty or nearly so.
    """
    k = data.min_users
    shares = known_shares(data, split, range(1, k + 1))
    lower = [
        f"{shares[level]:.1%} with `min_users={level}`"
        for level in range(k - 1, 0, -1)
        if f"{shares[level]:.1%}" != f"{shares[level + 1]:.1%}"
    ]
    gain = f"It would be {', '.join(lower)}; that shows what fewer people typed." if lower else ""
    if not data.counts("queries").head(1).collect().height:
        yield Advice(
            f"No query was typed by {k} users: every count model would be empty. "
            + (gain or "The log is too small.")
        )
    elif shares[k] < FEW_KNOWN:
        whose = "the background's" if split == "background" else "later"
        users = "at least one user" if k == 1 else f"{k} users"
        yield Advice(
            f"Only {shares[k]:.1%} of {whose} searches are of queries that {users} typed: the log "
            f"is small. {gain or 'A lower K would not change that; collect more days.'}"
        )


def known_shares(data: PreparedData, split: str, levels: Iterable[int]) -> dict[int, float]:
    """The share of a split's searches whose query K users of the background typed, for each K."""
    typed = data.search_rows("background").group_by("query")
    users = typed.agg(pl.col("user").n_unique().alias("users"))
    shares = (
        data.search_rows(split)
        .join(users, on="query", how="left")
        .select(_share(pl.col("users").fill_null(0) >= level).alias(str(level)) for level in levels)
        .collect(engine="streaming")
    )
    return {int(name): float(value) for name, value in shares.row(0, named=True).items()}
