"""Visitors that no person can be: programs that search by themselves.

Their queries follow lists, not intents, and a single one can outweigh thousands of people in the
counts. The rule looks at numbers of different queries only, so that a reader who turns pages or
clicks much is no robot.
"""

from dataclasses import dataclass

import narwhals as nw

from nextquery.logs.engines.base import Engine, Frame


@dataclass(frozen=True)
class RobotRule:
    """From how many different queries on a visitor is left out.

    The busiest hour of a person in the logs at hand had 53 different queries; a person who typed
    5,000 different ones in three months would have to type 55 every day.
    """

    queries_per_hour: int = 200
    """In one hour of the clock."""
    queries: int = 5_000
    """In the whole log."""

    def __str__(self) -> str:
        return (
            f"more than {self.queries_per_hour:,} different queries in one hour, or "
            f"{self.queries:,} in the whole log"
        )


ROBOTS = RobotRule()
"""The rule that `prepare` goes by."""


@dataclass(frozen=True)
class RobotCounts:
    """How many visitors were left out, and how many rows with them."""

    users: int = 0
    rows: int = 0


def leave_out_robots(engine: Engine, rows: Frame, rule: RobotRule) -> tuple[Frame, RobotCounts]:
    """The rows (user_id, time, query_id, ...) of visitors who may be people."""
    fewest = min(rule.queries_per_hour, rule.queries)
    sizes = rows.group_by("user_id").agg(rows=nw.len()).filter(nw.col("rows") > fewest)
    busy = engine.materialise(sizes, "busy_users")
    if not _count(busy):
        return rows, RobotCounts()
    typed = rows.join(busy.select("user_id"), on="user_id", how="semi")
    typed = typed.select("user_id", "query_id", hour=nw.col("time").dt.truncate("1h")).unique()
    typed = engine.materialise(typed, "busy_hours")
    robots = _more_than(typed, ["user_id", "hour"], rule.queries_per_hour)
    robots = nw.concat([robots, _more_than(typed, ["user_id"], rule.queries)]).unique()
    robots = engine.materialise(robots.join(busy, on="user_id"), "robots")
    found = _count(robots)
    if not found:
        return rows, RobotCounts()
    left = rows.join(robots.select("user_id"), on="user_id", how="anti")
    dropped = robots.select(nw.col("rows").sum()).collect("pyarrow").item()
    return engine.materialise(left, "people"), RobotCounts(found, int(dropped))


def _more_than(typed: Frame, keys: list[str], most: int) -> Frame:
    """Users who have more than `most` different queries under one combination of keys."""
    different = typed.select(*keys, "query_id").unique()
    counts = different.group_by(*keys).agg(queries=nw.len())
    return counts.filter(nw.col("queries") > most).select("user_id").unique()


def _count(frame: Frame) -> int:
    return int(frame.select(nw.len()).collect("pyarrow").item())
