"""Tables of docs/results/lists.md."""

from collections.abc import Mapping
from typing import Any

from research.tables import read, table

Document = Mapping[str, Any]
VISITORS = {
    "test: all": "known visitors",
    "test: users never looked at": "... none of whose requests were looked at before",
    "unseen_users: all": "held-out users",
}


def returning() -> str:
    """The next query in the list alone and in list and `again` together, with intervals by user."""
    heads = ["visitors", "requests", "users", "next query typed before", "hit, list of 5"]
    heads += ["hit, list and `again`", "`again` shown", "right when shown", "last three right"]
    visitors = read("returning")["learners"]["regression"]["result"]["visitors"]
    return table(heads, [_row(title, visitors[key]) for key, title in VISITORS.items()])


def _row(title: str, measured: Document) -> list[str]:
    cells = [title, f"{measured['requests']:,}", f"{measured['users']:,}"]
    cells.append(f"{measured['next_query_typed_before']:.0%}")
    alone, together = measured["lists"]["blend"], measured["shown"]["blend"]
    cells += [share(alone["hit_5"]), share(together["hit"])]
    again = measured["again"]
    cells += [f"{again['shown']['value']:.0%}", share(again["precision_when_shown"])]
    return [*cells, f"{measured['last_three']['precision_when_shown']['value']:.0%}"]


def share(measured: Document) -> str:
    """A share with its 95% interval.

    >>> share({"value": 0.202, "low": 0.1727, "high": 0.2316})
    '20.2% (17.3 to 23.2)'
    """
    return f"{measured['value']:.1%} ({measured['low'] * 100:.1f} to {measured['high'] * 100:.1f})"
