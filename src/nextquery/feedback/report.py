"""The feedback report: computed from impressions, published as JSON and as a page."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nextquery.artifacts import check_target, publish, write_text
from nextquery.errors import InputError
from nextquery.evaluation.report import html
from nextquery.evaluation.steps import to_json
from nextquery.feedback.acceptance import (
    Acceptance,
    AcceptanceCount,
    PositionBias,
    estimate_position_bias,
)
from nextquery.feedback.events import ShadowList
from nextquery.feedback.impressions import Feedback, Impression, SetAside, read_feedback
from nextquery.feedback.settings import Bounds, ReportSettings
from nextquery.normalise import join_words


@dataclass(frozen=True)
class ShadowResult:
    """A model in the shadow against the lists that were shown."""

    model: str
    version: str
    lists: int
    overlap: float
    """The mean share of a shown list that the shadow's has, too."""
    same_first: float
    """How often both have the same first suggestion."""
    taken: int
    """Suggestions that were taken."""
    taken_known: float | None
    """The share of those that the shadow would have shown; None if none was taken."""
    taken_higher: float | None
    """Of those, the share that it would have placed higher, less that placed lower."""


def compare_shadows(impressions: Iterable[Impression]) -> tuple[ShadowResult, ...]:
    """Every model and version that was in the shadow."""
    found: defaultdict[tuple[str, str], list[tuple[Impression, ShadowList]]] = defaultdict(list)
    for each in impressions:
        for shadow in each.shadows:
            found[shadow.model, shadow.version].append((each, shadow))
    return tuple(_compare(*names, pairs) for names, pairs in sorted(found.items()))


def _compare(model: str, version: str, pairs: list[tuple[Impression, ShadowList]]) -> ShadowResult:
    overlap, same_first, taken = 0.0, 0, list[int | None]()
    for each, shadow in pairs:
        shown = [item.text for item in each.suggestions]
        other = [item.text for item in shadow.suggestions]
        overlap += len(set(shown) & set(other)) / len(shown)
        same_first += shown[:1] == other[:1]
        for place in sorted(each.taken):
            # Positive: the shadow has it higher.
            text = shown[place]
            taken.append(place - other.index(text) if text in other else None)
    known = [moved for moved in taken if moved is not None]
    higher = sum((moved > 0) - (moved < 0) for moved in known)
    return ShadowResult(
        model=model,
        version=version,
        lists=len(pairs),
        overlap=overlap / len(pairs),
        same_first=same_first / len(pairs),
        taken=len(taken),
        taken_known=len(known) / len(taken) if taken else None,
        taken_higher=higher / len(known) if known else None,
    )


Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class NeverTaken:
    """A query after which nothing was ever taken, and what was shown there most often."""

    query: str
    lists: Acceptance
    suggestions: tuple[str, ...]


@dataclass(frozen=True)
class FeedbackReport:
    """What was shown, taken and dismissed. `lists` count lists, the others single suggestions."""

    lists: Acceptance
    suggestions: Acceptance
    by_position: Mapping[int, Acceptance]
    by_model: Mapping[str, Acceptance]
    by_source: Mapping[str, Acceptance]
    by_day: Mapping[str, Acceptance]
    """Lists of each day."""
    by_query: Mapping[str, Acceptance]
    """Lists after the queries that most lists were shown for."""
    queries: int
    """Different queries, named or not."""
    never_taken: tuple[NeverTaken, ...]
    position_bias: PositionBias
    set_aside: Mapping[str, int]
    settings: ReportSettings


def report_on(feedback: Feedback, settings: ReportSettings) -> FeedbackReport:
    """The report on impressions; refused where there are none."""
    shown = feedback.impressions
    if not shown:
        aside = ", ".join(f"{n} {reason}" for reason, n in feedback.set_aside.items())
        raise InputError(f"no list was shown to anybody ({aside or 'no events at all'})")
    by_query = _lists_by(shown, lambda each: each.query)
    return FeedbackReport(
        lists=_lists_by(shown, lambda _: "")[""].acceptance(),
        suggestions=_places_by(shown, lambda *_: "")[""].acceptance(),
        by_position=_sorted(_places_by(shown, lambda _, place: place + 1)),
        by_model=_sorted(_places_by(shown, lambda each, place: each.suggestions[place].model)),
        by_source=_sorted(_places_by(shown, lambda each, place: each.suggestions[place].source)),
        by_day=_sorted(_lists_by(shown, lambda each: each.day)),
        by_query=_most_shown(by_query, settings),
        queries=len(by_query),
        never_taken=_never_taken(shown, by_query, settings),
        position_bias=estimate_position_bias(shown),
        set_aside={str(reason): n for reason, n in feedback.set_aside.items() if n},
        settings=settings,
    )


def _lists_by(
    shown: Iterable[Impression], key: Callable[[Impression], str]
) -> dict[str, AcceptanceCount]:
    counts: defaultdict[str, AcceptanceCount] = defaultdict(AcceptanceCount)
    for each in shown:
        counts[key(each)].add(each.visitor, taken=bool(each.taken), dismissed=each.dismissed)
    return counts


def _places_by(
    shown: Iterable[Impression], key: Callable[[Impression, int], Key]
) -> dict[Key, AcceptanceCount]:
    counts: defaultdict[Key, AcceptanceCount] = defaultdict(AcceptanceCount)
    for each in shown:
        for place in range(len(each.suggestions)):
            taken = place in each.taken
            counts[key(each, place)].add(each.visitor, taken=taken, dismissed=each.dismissed)
    return counts


def _sorted(counts: Mapping[Key, AcceptanceCount]) -> dict[Key, Acceptance]:
    return {key: counts[key].acceptance() for key in sorted(counts)}


def _most_shown(
    by_query: Mapping[str, AcceptanceCount], settings: ReportSettings
) -> dict[str, Acceptance]:
    known = [query for query, count in by_query.items() if count.visitors >= settings.min_visitors]
    order = sorted(known, key=lambda query: (-by_query[query].shown, query))
    return {query: by_query[query].acceptance() for query in order[: settings.queries]}


def _never_taken(
    shown: Sequence[Impression],
    by_query: Mapping[str, AcceptanceCount],
    settings: ReportSettings,
) -> tuple[NeverTaken, ...]:
    often = {
        query: found
        for query, count in by_query.items()
        if count.shown >= settings.min_shown and count.visitors >= settings.min_visitors
        for found in [count.acceptance()]
        if not found.taken
    }
    order = sorted(often, key=lambda query: (-often[query].shown, query))[: settings.queries]
    texts: dict[str, Counter[str]] = {query: Counter() for query in order}
    for each in shown:
        if each.query in texts:
            texts[each.query].update(join_words(item.text) for item in each.suggestions)
    return tuple(
        NeverTaken(query, often[query], tuple(_most_common(texts[query], 5))) for query in order
    )


def _most_common(counts: Counter[str], n: int) -> list[str]:
    return sorted(counts, key=lambda text: (-counts[text], text))[:n]


def flooded(report: FeedbackReport) -> float:
    """The share of all lists that the bounds set aside."""
    bounded = sum(report.set_aside.get(str(why), 0) for why in (SetAside.VISITOR, SetAside.ORIGIN))
    return bounded / (bounded + report.lists.shown)


HEADS = ("shown", "taken", "dismissed", "visitors", "acceptance")
NOTICED = 0.05
"""A larger share that was set aside by the bounds is said at the top."""


def feedback_page(report: FeedbackReport) -> str:
    """The whole page."""
    parts = {
        "summary": ("What was found", _summary(report)),
        "position": ("By position", _positions(report)),
        "model": ("By model", _table("Model", report.by_model) + html.paragraph(_MODELS, "note")),
        "source": ("By source", _table("Source", report.by_source)),
        "day": ("By day", _table("Day", report.by_day)),
        "query": ("By query", _queries(report)),
        "never": ("Shown often, never taken", _never_accepted_table(report)),
        "aside": ("What does not count", _set_aside(report)),
    }
    days = list(report.by_day)
    return html.document(
        "What became of the suggestions",
        f"{report.lists.shown:,} lists shown to {report.lists.visitors:,} visitors, "
        f"{days[0]} to {days[-1]}.",
        [(anchor, title) for anchor, (title, _) in parts.items()],
        [html.section(anchor, title, body) for anchor, (title, body) in parts.items()],
    )


_MODELS = (
    "Single suggestions by the model that put them there. Models that were not shown at random to "
    "the same visitors cannot be compared here: use nextquery feedback compare on a trial."
)


def _summary(report: FeedbackReport) -> str:
    lines = [
        f"Of {report.lists.shown:,} lists something was taken from {_percent(report.lists)}; "
        f"{report.lists.dismissed:,} were closed without.",
        f"Of {report.suggestions.shown:,} suggestions {_percent(report.suggestions)} were taken.",
        _bias_sentence(report),
    ]
    if flooded(report) > NOTICED:
        lines.append(
            f"{flooded(report):.0%} of all lists were set aside because one visitor or one origin "
            "was shown more than a person is. Where all visitors come through one proxy, name it "
            "with serve --trusted-proxy, or report with --per-origin 0."
        )
    note = (
        "Intervals are 95%, for as many independent observations as the visitors' differences "
        "leave. Shown means that a page said so; whether anybody looked is not known."
    )
    return html.bullets(lines) + html.paragraph(note, "note")


def _bias_sentence(report: FeedbackReport) -> str:
    bias = report.position_bias
    if not bias.places:
        return f"Position bias cannot be told: {bias.too_few}."
    last = bias.places[-1]
    return (
        f"Position bias: place {last.position} is looked at {last.examined:.2f} times as often as "
        f"the first ({last.low:.2f} to {last.high:.2f}), judged by {bias.pairs:,} suggestions that "
        "stood at several places after the same query."
    )


def _positions(report: FeedbackReport) -> str:
    places = {each.position: each for each in report.position_bias.places}
    rows: list[html.Row] = []
    for position, found in report.by_position.items():
        place = places.get(position)
        cell: html.Cell | str = "–"
        if place is not None:
            cell = html.Cell(f"{place.examined:.2f}", "", f"{place.low:.2f} to {place.high:.2f}")
        rows.append([str(position), *_cells(found), cell])
    note = (
        "Acceptance falls with the position for two reasons: worse suggestions stand lower, and "
        "lower places are looked at less. The last column is the second alone: of the same "
        "suggestion after the same query at different places (position-based model)."
    )
    heads = ["Position", *HEADS, "looked at, relative to the first"]
    return html.table(heads, rows) + html.paragraph(note, "note")


def _queries(report: FeedbackReport) -> str:
    settings = report.settings
    note = (
        f"{len(report.by_query):,} of {report.queries:,} queries: those that most lists were shown "
        f"for, of at least {settings.min_visitors} visitors."
    )
    return _table("Query", report.by_query) + html.paragraph(note, "note")


def _never_accepted_table(report: FeedbackReport) -> str:
    settings = report.settings
    if not report.never_taken:
        text = f"No query whose lists were shown {settings.min_shown} times had none taken."
        return html.paragraph(text, "none")
    rows: list[html.Row] = [
        [
            each.query,
            f"{each.lists.shown:,}",
            f"{each.lists.visitors:,}",
            f"{each.lists.high:.1%}",
            html.Cell("; ".join(each.suggestions), "text"),
        ]
        for each in report.never_taken
    ]
    heads: html.Row = [
        "Query", "shown", "visitors", "acceptance at most", html.Cell("what was shown", "text"),
    ]  # fmt: skip
    return html.table(heads, rows)


def _set_aside(report: FeedbackReport) -> str:
    if not report.set_aside:
        return html.paragraph("Nothing was set aside.", "none")
    rows: list[html.Row] = [[why, f"{count:,}"] for why, count in report.set_aside.items()]
    return html.table(["Reason", "lines or lists"], rows)


def _table(name: str, found: Mapping[str, Acceptance]) -> str:
    rows: list[html.Row] = [[key, *_cells(each)] for key, each in found.items()]
    return html.table([name, *HEADS], rows)


def _cells(found: Acceptance) -> list[html.Cell | str]:
    interval = f"{found.low:.1%} to {found.high:.1%}"
    counts = (found.shown, found.taken, found.dismissed, found.visitors)
    return [*(f"{count:,}" for count in counts), html.Cell(f"{found.share:.1%}", "", interval)]


def _percent(found: Acceptance) -> str:
    return f"{found.share:.1%} ({found.low:.1%} to {found.high:.1%})"


def make_report(
    folder: Path, target: Path, bounds: Bounds, settings: ReportSettings
) -> FeedbackReport:
    """Read a feedback folder and publish the report on it."""
    check_target(target, "feedback-report")
    report = report_on(read_feedback(folder, bounds), settings)
    entries = {"counts": {"lists": report.lists.shown, "taken": report.lists.taken}}
    with publish(target, "feedback-report", entries) as out:
        write_text(out / "results.json", json.dumps(to_json(report), indent=2) + "\n")
        write_text(out / "index.html", feedback_page(report))
    return report
