"""Which column is user, time, query and click, in the formats that leave it open."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nextquery.errors import LogError

_USUAL = {
    "user": "user userid visitor visitorid client clientid uid anonid idvisitor sessionid session "
    "who",
    "time": "time timestamp datetime date eventtime servertime querytime createdat dateandtime "
    "searchtime ts when",
    "query": "query q searchterm searchquery userquery keyword keywords term search searchphrase "
    "what",
}
"""How the columns of a log are often called, the likeliest first."""
REQUIRED = ("user", "time", "query")
FIELDS = (*REQUIRED, "click")


def check_columns(columns: Mapping[str, str]) -> None:
    """Refuse columns that lack a field or name one that there is not."""
    missing = [name for name in REQUIRED if not columns.get(name)]
    unknown = sorted(columns.keys() - set(FIELDS))
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"knows no {', '.join(unknown)}"
        raise LogError(f"`columns` {wrong}; write user=...,time=...,query=...[,click=...]")


def find_columns(
    file: Path, columns: Mapping[str, str] | None, names: Sequence[str]
) -> dict[str, str]:
    """The name of each wanted column; without a choice, columns called user, time and query.

    >>> find_columns(Path("log.csv"), None, ["Time", "user", "query", "page"])
    {'user': 'user', 'time': 'Time', 'query': 'query'}
    """
    written = {name.strip().casefold(): name for name in reversed(names)}
    wanted = dict(columns) if columns else {name: written.get(name, name) for name in REQUIRED}
    if columns is None and "click" in written:
        wanted["click"] = written["click"]
    missing = [name for name in wanted.values() if name not in names]
    if missing:
        raise LogError(
            f"{file}: has no column {', '.join(map(repr, missing))}; it has "
            f"{listed(names)}: say which with `columns=user=...,time=...,query=...`"
        )
    twice = sorted({name for name in wanted.values() if names.count(name) > 1})
    if twice:
        raise LogError(f"{file}: has several columns called {', '.join(map(repr, twice))}")
    return wanted


def guess_columns(names: Sequence[str]) -> dict[str, str]:
    """The columns that may be user, time and query by their names; none unless all three are found.

    >>> guess_columns(["Visitor ID", "created_at", "search term", "results"])
    {'user': 'Visitor ID', 'time': 'created_at', 'query': 'search term'}
    >>> guess_columns(["a", "b", "c"])
    {}
    """
    plain = {"".join(filter(str.isalnum, name.casefold())): name for name in reversed(names)}
    found = {}
    for field, usual in _USUAL.items():
        known = [plain[name] for name in usual.split() if name in plain]
        if not known:
            return {}
        found[field] = known[0]
    return found


def listed(names: Sequence[str]) -> str:
    """The first names of a header, for a message."""
    start = [name[:60] for name in names[:20]]
    shown = ", ".join(name if name.isprintable() else repr(name) for name in start)
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"
