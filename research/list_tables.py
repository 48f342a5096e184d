"""Tables of docs/results/lists.md."""

from collections.abc import Mapping
from typing import Any

from research.tables import p_value, read, table

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


LOGS = {
    "aol": "AOL",
    "sessions-1000": "AOL, 1,000 sessions",
    "edu-sites": "AOL, clicks on .edu sites",
    "excite": "Excite",
    "synthetic": "synthetic",
}
SPLITS = {"test": "", "unseen_users": ", held-out users"}
FEWEST = 500
"""Requests from which on hits are shown by kind."""
RULE = "drop words"
JUNK = ("repeated_word", "dangling", "fragment", "disfluent", "misspelt")


def first_lists() -> str:
    """Every system on every log, HRED and blends before and after."""
    heads = ["log", "known queries", "requests", "system", "coverage", "places of 5", "hit@5"]
    heads += [
        "MRR",
        "MRR (i)",
        "p",
        "not typed by K",
        "shortened",
        "junk",
        "100 most frequent",
        "ms",
    ]
    rows = []
    for name, title in LOGS.items():
        study = read("first_lists").get(name, {"visitors": {}})
        for split, measured in study["visitors"].items():
            known = f"{study['log']['known_queries']:,}"
            first = [title + SPLITS[split], known, f"{measured['requests']:,}"]
            for system, quality in measured["systems"].items():
                rows.append([*first, system, *_cells(system, quality, measured)])
                first = [""] * len(first)
    return table(heads, rows)


def _cells(system: str, quality: Document, measured: Document) -> list[str]:
    """The figures of one system."""
    model, _, when = system.partition(", ")
    p = p_value(measured["after_less_before"][model]["mrr_p"]) if when == "after" else ""
    milliseconds = measured["cpu_ms"].get(system)
    return [
        f"{quality['coverage']:.0%}",
        f"{quality['places']:.1f}",
        f"{quality['hit_5']:.3f}",
        f"{quality['mrr']:.4f}",
        f"{quality['mrr_informational']:.4f}",
        p,
        *(f"{quality[share]:.0%}" for share in ("unknown", "shortened")),
        f"{sum(quality[flaw] for flaw in JUNK):.0%}",
        f"{quality['frequent']:.0%}",
        "" if milliseconds is None else f"{milliseconds:.1f}",
    ]


def list_kinds() -> str:
    """What lists are made of and where their hits come from, before and after."""
    rows = []
    for name, title in LOGS.items():
        for split, measured in read("first_lists").get(name, {"visitors": {}})["visitors"].items():
            if measured["requests"] < FEWEST:
                continue
            first = [title + SPLITS[split]]
            for system, quality in measured["systems"].items():
                if "," in system:
                    rows.append([*first, system, *map(_kind, quality["by_kind"].values())])
                    first = [""]
    return table(["log", "system", *measured["systems"][RULE]["by_kind"]], rows)


def _kind(measured: Document) -> str:
    """Places per list, hits per 1,000 requests, part of the MRR.

    >>> _kind({"places": 1.646, "hit_5": 0.0306, "mrr": 0.01534})
    '1.65; 31; .0153'
    """
    mrr = f"{measured['mrr']:.4f}".removeprefix("0")
    return f"{measured['places']:.2f}; {1000 * measured['hit_5']:.0f}; {mrr}"


def variants() -> str:
    """Hits and text quality of every variant of HRED, by half of the held-out users."""
    study = read("list_variants")
    halves = list(study["lists"].values())
    rows = []
    for name in halves[0]["systems"]:
        perplexity = study["perplexity"].get(name, [])
        cells = [name, f"{sum(perplexity) / len(perplexity):.1f}" if perplexity else ""]
        for half in halves:
            measured = half["systems"][name]
            p = "" if name == "small" else p_value(measured["p"])
            cells += [f"{measured['mrr']:.4f}", f"{measured['mrr_informational']:.4f}", p]
        cells.append(f"{measured['places']:.1f}")
        cells += [f"{measured[share]:.0%}" for share in ("shortened", "frequent")]
        rows.append(cells)
    heads = ["HRED, three seeds", "perplexity", "MRR, first half", "MRR (i)", "p"]
    heads += ["MRR, second half", "MRR (i)", "p", "places of 5", "shortened", "100 most frequent"]
    return table(heads, rows)
