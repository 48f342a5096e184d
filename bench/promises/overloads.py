"""Twice the load that a service can bear: who is accepted is answered soon, the rest told at once.

The control accepts everybody, as a queue without a bound does.
"""

import sys
from contextlib import AbstractContextManager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from promises.rows import Row
from promises.small_models import served_models
from serving.processes import Server, load, service

BUDGET_MS, TIMES_ALONE = 300, 5
"""What 99 in 100 of the accepted are answered within, the larger of the two: the budget of a
request by default, and so many times what 99 in 100 take alone on the same machine."""
DEAR = {"n": 20}
"""A list that takes some milliseconds, so that twice the capacity is no test of the sender."""
UNBOUNDED = ("--queue-size", "100000", "--budget-ms", "60000")


def an_overload_is_refused_not_queued(quick: bool) -> Row:
    """Twice the capacity for seconds; nothing but answers and 503."""
    words = served_models().words
    with _served() as server:
        load(server, words, clients=2, requests=20, options=DEAR)
        alone = load(server, words, clients=1, seconds=1, options=DEAR)["p99_ms"]
        busy = load(server, words, clients=8, seconds=1, seed=1, options=DEAR)
        flood = {"rate": 2 * busy["answered_per_s"], "seed": 2, "options": DEAR}
        seen = load(server, words, seconds=1.5 if quick else 30, **flood)
    with _served(*UNBOUNDED) as server:
        queued = load(server, words, seconds=1.5, **flood)["p99_ms"]
    bound = max(BUDGET_MS, TIMES_ALONE * alone)
    known = sum(seen["statuses"].get(status, 0) for status in ("200", "503"))
    return Row(
        "service",
        "twice the capacity: answered within the budget (99 in 100), or refused at once",
        sum(seen["statuses"].values()),
        known if seen["p99_ms"] <= bound else 0,
        "a queue without a bound",
        queued > bound,
        f"p99 of the accepted {seen['p99_ms']:.0f} ms, alone {alone:.0f} ms, "
        f"of the control {queued:.0f} ms",
    )


def _served(*options: str) -> AbstractContextManager[Server]:
    return service(served_models().hred["tiny"], "--drain-seconds", "0", *options)
