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
from nextquery.feedback.impressions import ExclusionReason, Feedback, Impression, read_feedback
from nextquery.feedback.settings import Bounds, ReportSettings
from nextquery.normalise import join_words


@dataclass(frozen=True)
class ShadowResult:
    """A shadow model compared with the lists that were shown."""

    model: str
    version: str
    lists: int
    overlap: float
    """Mean share of a shown list that is in the shadow list as well."""
    same_first: float
    """How often both have the same first suggestion."""
    taken: int
    """Accepted suggestions."""
    taken_known: float | None
    """Share of those that the shadow would have shown; None if none was accepted."""
    taken_higher: float | None
    """Of those, the share ranked higher minus the share ranked lower."""


def compare_shadows(impressions: Iterable[Impression]) -> tuple[ShadowResult, ...]:
    """Compare every shadow model and version."""
    pairs_by_model: defaultdict[tuple[str, str], list[tuple[Impression, ShadowList]]] = defaultdict(
        list
    )
    for impression in impressions:
        for shadow in impression.shadows:
            pairs_by_model[shadow.model, shadow.version].append((impression, shadow))
    return tuple(_compare(*names, pairs) for names, pairs in sorted(pairs_by_model.items()))


def _compare(model: str, version: str, pairs: list[tuple[Impression, ShadowList]]) -> ShadowResult:
    overlap, same_first, taken = 0.0, 0, list[int | None]()
    for impression, shadow in pairs:
        shown = [item.text for item in impression.suggestions]
        other = [item.text for item in shadow.suggestions]
        overlap += len(set(shown) & set(other)) / len(shown)
        same_first += shown[:1] == other[:1]
        for position in sorted(impression.taken):
            # Positive: the shadow has it higher.
            text = shown[position]
            taken.append(position - other.index(text) if text in other else None)
    moves = [moved for moved in taken if moved is not None]
    higher = sum((moved > 0) - (moved < 0) for moved in moves)
    return ShadowResult(
        model=model,
        version=version,
        lists=len(pairs),
        overlap=overlap / len(pairs),
        same_first=same_first / len(pairs),
        taken=len(taken),
        taken_known=len(moves) / len(taken) if taken else None,
        taken_higher=higher / len(moves) if moves else None,
    )


Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class NeverTaken:
    """A query without any accepted suggestion, and what was shown most often."""

    query: str
    lists: Acceptance
    suggestions: tuple[str, ...]


@dataclass(frozen=True)
class FeedbackReport:
    """What was shown, accepted and dismissed, by list (`lists`) or by single suggestion."""

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
    """Number of distinct queries."""
    never_taken: tuple[NeverTaken, ...]
    position_bias: PositionBias
    excluded: Mapping[str, int]
    settings: ReportSettings


def report_on(feedback: Feedback, settings: ReportSettings) -> FeedbackReport:
    """The report on impressions; refused where there are none."""
    shown = feedback.impressions
    if not shown:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in feedback.excluded.items())
        raise InputError(f"no list was shown ({reasons or 'no events at all'})")
    by_query = _lists_by(shown, lambda impression: impression.query)
    return FeedbackReport(
        lists=_lists_by(shown, lambda _: "")[""].acceptance(),
        suggestions=_positions_by(shown, lambda *_: "")[""].acceptance(),
        by_position=_sorted(_positions_by(shown, lambda _, position: position + 1)),
        by_model=_sorted(
            _positions_by(
                shown, lambda impression, position: impression.suggestions[position].model
            )
        ),
        by_source=_sorted(
            _positions_by(
                shown, lambda impression, position: impression.suggestions[position].source
            )
        ),
        by_day=_sorted(_lists_by(shown, lambda impression: impression.day)),
        by_query=_most_shown(by_query, settings),
        queries=len(by_query),
        never_taken=_never_accepted(shown, by_query, settings),
        position_bias=estimate_position_bias(shown),
        excluded={str(reason): n for reason, n in feedback.excluded.items() if n},
        settings=settings,
    )


def _lists_by(
    shown: Iterable[Impression], key: Callable[[Impression], str]
) -> dict[str, AcceptanceCount]:
    counts: defaultdict[str, AcceptanceCount] = defaultdict(AcceptanceCount)
    for impression in shown:
        counts[key(impression)].add(
            impression.visitor, taken=bool(impression.taken), dismissed=impression.dismissed
        )
    return counts


def _positions_by(
    shown: Iterable[Impression], key: Callable[[Impression, int], Key]
) -> dict[Key, AcceptanceCount]:
    counts: defaultdict[Key, AcceptanceCount] = defaultdict(AcceptanceCount)
    for impression in shown:
        for position in range(len(impression.suggestions)):
            taken = position in impression.taken
            counts[key(impression, position)].add(
                impression.visitor, taken=taken, dismissed=impression.dismissed
            )
    return counts


def _sorted(counts: Mapping[Key, AcceptanceCount]) -> dict[Key, Acceptance]:
    return {key: counts[key].acceptance() for key in sorted(counts)}


def _most_shown(
    by_query: Mapping[str, AcceptanceCount], settings: ReportSettings
) -> dict[str, Acceptance]:
    enough_visitors = [
        query for query, count in by_query.items() if count.visitors >= settings.min_visitors
    ]
    order = sorted(enough_visitors, key=lambda query: (-by_query[query].shown, query))
    return {query: by_query[query].acceptance() for query in order[: settings.queries]}


def _never_accepted(
    shown: Sequence[Impression],
    by_query: Mapping[str, AcceptanceCount],
    settings: ReportSettings,
) -> tuple[NeverTaken, ...]:
    often = {
        query: acceptance
        for query, count in by_query.items()
        if count.shown >= settings.min_shown and count.visitors >= settings.min_visitors
        for acceptance in [count.acceptance()]
        if not acceptance.taken
    }
    order = sorted(often, key=lambda query: (-often[query].shown, query))[: settings.queries]
    texts: dict[str, Counter[str]] = {query: Counter() for query in order}
    for impression in shown:
        if impression.query in texts:
            texts[impression.query].update(join_words(item.text) for item in impression.suggestions)
    return tuple(
        NeverTaken(
            query,
            often[query],
            tuple(sorted(counts, key=lambda text: (-counts[text], text))[:5]),
        )
        for query, counts in texts.items()
    )


def flooded(report: FeedbackReport) -> float:
    """Return the share of all lists excluded by the daily limits."""
    bounded = sum(
        report.excluded.get(str(why), 0)
        for why in (ExclusionReason.VISITOR, ExclusionReason.ORIGIN)
    )
    return bounded / (bounded + report.lists.shown)


HEADS = ("shown", "accepted", "dismissed", "visitors", "acceptance")
NOTICED = 0.05
"""A larger share excluded by the daily limits is reported at the top."""


def feedback_page(report: FeedbackReport) -> str:
    """Return the report as an HTML page."""
    parts = {
        "summary": ("Summary", _summary(report)),
        "position": ("By position", _positions(report)),
        "model": ("By model", _table("Model", report.by_model) + html.paragraph(_MODELS, "note")),
        "source": ("By source", _table("Source", report.by_source)),
        "day": ("By day", _table("Day", report.by_day)),
        "query": ("By query", _queries(report)),
        "never": ("Shown often, never accepted", _never_accepted_table(report)),
        "excluded": ("Excluded", _excluded(report)),
    }
    days = list(report.by_day)
    return html.document(
        "Feedback report",
        f"{report.lists.shown:,} lists shown to {report.lists.visitors:,} visitors, "
        f"{days[0]} to {days[-1]}.",
        [(anchor, title) for anchor, (title, _) in parts.items()],
        [html.section(anchor, title, body) for anchor, (title, body) in parts.items()],
    )


_MODELS = (
    "Single suggestions by the model that made them. To compare models, assign visitors at random "
    "in a trial and use nextquery feedback compare."
)


def _summary(report: FeedbackReport) -> str:
    lines = [
        f"A suggestion was accepted in {_percent(report.lists)} of {report.lists.shown:,} lists; "
        f"{report.lists.dismissed:,} lists were dismissed.",
        f"Accepted: {_percent(report.suggestions)} of {report.suggestions.shown:,} suggestions.",
        _bias_sentence(report),
    ]
    if flooded(report) > NOTICED:
        lines.append(
            f"{flooded(report):.0%} of all lists were excluded because one visitor or one origin "
            "exceeded its daily limit. If all visitors come through one proxy, name it "
            "with serve --trusted-proxy, or report with --per-origin 0."
        )
    note = (
        "95% intervals use the effective sample size by visitor. Shown means that the page "
        "reported the list as shown, not that somebody looked at it."
    )
    return html.bullets(lines) + html.paragraph(note, "note")


def _bias_sentence(report: FeedbackReport) -> str:
    bias = report.position_bias
    if not bias.positions:
        return f"Position bias cannot be estimated: {bias.too_few}."
    last = bias.positions[-1]
    return (
        f"Position bias: position {last.position} is examined {last.examined:.2f} times as often "
        f"as the first ({last.low:.2f} to {last.high:.2f}), estimated from {bias.pairs:,} "
        "suggestions shown at several positions for the same query."
    )


def _positions(report: FeedbackReport) -> str:
    examinations = {
        examination.position: examination for examination in report.position_bias.positions
    }
    rows: list[html.Row] = []
    for position, acceptance in report.by_position.items():
        examination = examinations.get(position)
        cell: html.Cell | str = "–"
        if examination is not None:
            cell = html.Cell(
                f"{examination.examined:.2f}",
                "",
                f"{examination.low:.2f} to {examination.high:.2f}",
            )
        rows.append([str(position), *_cells(acceptance), cell])
    note = (
        "Acceptance falls with the position for two reasons: lower suggestions are worse, and "
        "lower positions are examined less. The last column is the second effect alone, estimated "
        "from the same suggestion at different positions for the same query (position-based model)."
    )
    heads = ["Position", *HEADS, "examined, relative to the first"]
    return html.table(heads, rows) + html.paragraph(note, "note")


def _queries(report: FeedbackReport) -> str:
    settings = report.settings
    note = (
        f"{len(report.by_query):,} of {report.queries:,} queries: the most frequent ones "
        f"with at least {settings.min_visitors} visitors."
    )
    return _table("Query", report.by_query) + html.paragraph(note, "note")


def _never_accepted_table(report: FeedbackReport) -> str:
    settings = report.settings
    if not report.never_taken:
        text = f"Every query with {settings.min_shown} or more lists had an accepted suggestion."
        return html.paragraph(text, "none")
    rows: list[html.Row] = [
        [
            entry.query,
            f"{entry.lists.shown:,}",
            f"{entry.lists.visitors:,}",
            f"{entry.lists.high:.1%}",
            html.Cell("; ".join(entry.suggestions), "text"),
        ]
        for entry in report.never_taken
    ]
    heads: html.Row = [
        "Query", "shown", "visitors", "acceptance at most", html.Cell("what was shown", "text"),
    ]  # fmt: skip
    return html.table(heads, rows)


def _excluded(report: FeedbackReport) -> str:
    if not report.excluded:
        return html.paragraph("Nothing was excluded.", "none")
    rows: list[html.Row] = [[why, f"{count:,}"] for why, count in report.excluded.items()]
    return html.table(["Reason", "lines or lists"], rows)


def _table(name: str, acceptances: Mapping[str, Acceptance]) -> str:
    rows: list[html.Row] = [[key, *_cells(acceptance)] for key, acceptance in acceptances.items()]
    return html.table([name, *HEADS], rows)


def _cells(acceptance: Acceptance) -> list[html.Cell | str]:
    interval = f"{acceptance.low:.1%} to {acceptance.high:.1%}"
    counts = (acceptance.shown, acceptance.taken, acceptance.dismissed, acceptance.visitors)
    return [*(f"{count:,}" for count in counts), html.Cell(f"{acceptance.share:.1%}", "", interval)]


def _percent(acceptance: Acceptance) -> str:
    return f"{acceptance.share:.1%} ({acceptance.low:.1%} to {acceptance.high:.1%})"


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
