"""The report of a study as a page that opens offline. Knows how it looks, computes nothing."""

import html
from collections.abc import Sequence
from typing import Any

from nextquery.study.judgements import GRADES
from nextquery.study.outcomes import Outcome, Share, StudyOutcome

PAPER = "In the paper 64% of HRED's suggestions were useful or somewhat useful."

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-size: .9rem; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #8884; }
th:first-child, td:first-child, td.text { text-align: left; }
figure { margin: 1rem 0; background: #fff; border-radius: .5rem; padding: .5rem; }
svg { max-width: 100%; height: auto; } .note { color: #777; font-size: .9rem; }
.scroll { overflow-x: auto; }
"""


def study_page(
    report: StudyOutcome, header: Sequence[str], rows: Sequence[Sequence[Any]], figure: str
) -> str:
    """The page: the figure, a section a group of topics, the assessors, a row a topic."""
    done = ", ".join(f"{n}: {count} of {report.items}" for n, count in report.assessors.items())
    parts = [
        "<h1>Blind user study</h1>",
        f"<p>{len(rows)} topics, {report.items} distinct suggestions, "
        f"{sum(report.assessors.values())} judgements (assessor {done}).</p>",
        f"<figure>{figure}<figcaption class='note'>Share of each judgement per model, averaged "
        f"over assessors; 95% intervals by bootstrap over topics. {PAPER}</figcaption></figure>",
    ]
    if any(count < report.items for count in report.assessors.values()):
        parts.append(
            "<p><strong>Not complete:</strong> an unjudged suggestion counts 0 in gain.</p>"
        )
    for name, outcome in report.groups.items():
        parts += _group(name, outcome)
    parts += [
        "<h2>Agreement of each assessor with the others</h2>",
        _table(
            ["assessor", "judged", "Krippendorff's alpha"],
            [
                [number, count, _number(report.assessor_agreement.get(number))]
                for number, count in report.assessors.items()
            ],
        ),
        "<h2>By topic</h2><p class='note'>Gain of each model: mean grade over its places.</p>",
        _table(header, rows),
    ]
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Blind user study</title><style>{_STYLE}</style>{''.join(parts)}</html>\n"
    )


def _group(name: str, outcome: Outcome) -> list[str]:
    heading = f"<h2>Topics: {name} ({len(outcome.topics)})</h2>"
    if not any(model.judged for model in outcome.models):
        return [heading, "<p>No judgements in this group.</p>"]
    agreement = outcome.agreement
    models = [
        [
            model.model,
            *(_share(model.shares[grade]) for grade in GRADES),
            model.suggestions,
            model.topics_covered,
            f"{model.gain:.3f}",
        ]
        for model in outcome.models
    ]
    comparisons = [
        [f"{c.a} against {c.b}", f"{c.difference:+.3f}", _p(c.p), _p(c.p_corrected)]
        for c in outcome.comparisons
    ]
    return [
        heading,
        _table(["model", *GRADES, "suggestions", "topics covered", "gain"], models),
        _table(["pair", "difference in gain", "p", "p (Holm)"], comparisons),
        f"<p>Agreement over {agreement.items} suggestions: Fleiss' kappa "
        f"{_number(agreement.fleiss_kappa)}, Krippendorff's alpha (ordinal) "
        f"{_number(agreement.krippendorff_alpha)}.</p>",
    ]


def _share(share: Share) -> str:
    return f"{100 * share.value:.0f}% ({100 * share.low:.0f}-{100 * share.high:.0f})"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<div class='scroll'><table><tr>{head}</tr>{body}</table></div>"
