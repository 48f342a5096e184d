"""The feedback report as a page that opens offline. Knows how it looks, computes nothing."""

from collections.abc import Mapping

from nextquery.evaluation.report import html
from nextquery.feedback.acceptance import Acceptance
from nextquery.feedback.report_results import FeedbackReport, flooded

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
        "never": ("Shown often, never taken", _never_taken(report)),
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


def _never_taken(report: FeedbackReport) -> str:
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
