"""The report of a study as a page that opens offline. Knows how it looks, computes nothing."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nextquery.study.judgements import GRADES
from nextquery.study.results import GroupResults, Share, StudyResults

PAPER_POSITIVE = 0.64
"""The share of HRED's suggestions that the paper's assessors found useful or somewhat useful."""
POSITIVE = "useful or somewhat useful"


@dataclass(frozen=True)
class TopicTable:
    """One row per topic, with the gain of every model."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-size: .9rem; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
th, td { max-width: 22rem; overflow-wrap: break-word; unicode-bidi: isolate; }
figure { margin: 1rem 0; background: #fff; border-radius: .5rem; padding: .5rem; }
svg { max-width: 100%; height: auto; } .note { color: #777; font-size: .9rem; }
.scroll { overflow-x: auto; }
"""


def study_page(results: StudyResults, topics: TopicTable, plot: str) -> str:
    """The page: the plot, one section per group of topics, the assessors, one row per topic."""
    title = "Blind user study" if results.complete else "Blind user study: interim, not complete"
    parts = [
        f"<h1>{title}</h1>",
        f"<p>{len(topics.rows)} topics, {results.items} distinct suggestions, "
        f"{len(results.assessors)} assessors, {sum(results.assessors.values())} judgements.</p>",
        _missing(results),
        f"<figure>{plot}<figcaption class='note'>Share of each judgement per model, averaged "
        "over assessors; 95% intervals by bootstrap over queries.</figcaption></figure>",
        "<h2>Beside the paper</h2>",
        _beside_the_paper(results.groups["all"]),
    ]
    for name, group in results.groups.items():
        parts += _group(name, group)
    parts += [
        "<h2>Agreement of each assessor with the others</h2>",
        _table(
            ["assessor", "judged", "still to judge", "Krippendorff's alpha"],
            [
                [
                    number,
                    count,
                    results.missing.get(number, 0),
                    _number(results.assessor_agreement.get(number)),
                ]
                for number, count in results.assessors.items()
            ],
        ),
        "<h2>By topic</h2><p class='note'>Gain of each model: mean grade over its places.</p>",
        _table(topics.header, topics.rows),
    ]
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style>{''.join(parts)}</html>\n"
    )


def who_is_missing(results: StudyResults) -> str:
    """Who has still to judge and how much, as a sentence; empty when the study is complete."""
    if results.complete:
        return ""
    missing = ", ".join(
        f"assessor {number} ({left} of {results.items} left)"
        for number, left in results.missing.items()
    )
    return f"Not complete: {missing}."


def _missing(results: StudyResults) -> str:
    if results.complete:
        return "<p>Complete: every assessor has judged every suggestion.</p>"
    return (
        f"<p><strong>{who_is_missing(results)}</strong> Until then a suggestion that nobody has "
        "judged counts 0 in gain, and no figure here is the result of the study.</p>"
    )


def _beside_the_paper(group: GroupResults) -> str:
    """Our models' positive shares and the paper's, in one table."""
    rows = [[model.model, _share(model.positive), model.judged] for model in group.models]
    paper = ["HRED in the paper (50 TREC topics, 5 assessors)", f"{PAPER_POSITIVE:.0%}", ""]
    return _table(["model", POSITIVE, "suggestions judged"], [*rows, paper])


def _group(name: str, group: GroupResults) -> list[str]:
    heading = f"<h2>Topics: {name} ({len(group.topics)}, of {group.queries} queries)</h2>"
    if not any(model.judged for model in group.models):
        return [heading, "<p>No judgements in this group.</p>"]
    agreement = group.agreement
    models = [
        [
            model.model,
            *(_share(model.shares[grade]) for grade in GRADES),
            _share(model.positive),
            model.suggestions,
            model.topics_covered,
            f"{model.gain:.3f}",
        ]
        for model in group.models
    ]
    comparisons = [
        [f"{c.a} against {c.b}", f"{c.difference:+.3f}", _p(c.p), _p(c.p_corrected)]
        for c in group.comparisons
    ]
    return [
        heading,
        _table(["model", *GRADES, POSITIVE, "suggestions", "topics covered", "gain"], models),
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
