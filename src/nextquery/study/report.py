"""The report of a study as JSON, CSV, a plot and a page."""

import csv
import html
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nextquery.artifacts import check_target, publish, write_text
from nextquery.errors import InputError
from nextquery.study.pool import (
    FILE,
    GRADES,
    Judgement,
    JudgementStore,
    Key,
    Pool,
    read_key,
    read_pool,
)
from nextquery.study.results import (
    GroupResults,
    Share,
    StudyResults,
    evaluate_study,
    topic_gains,
)

COLOURS = {"useful": "#0b6e63", "somewhat useful": "#d9a441", "not useful": "#c9c7c0"}
_PLOT_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "nextquery",  # the same bytes for the same plot
    "svg.fonttype": "none",
    "text.parse_math": False,  # a model may be called A$\frac$
}
_LABEL_CHARACTERS = 24


def draw_shares(results: GroupResults) -> str:
    """The share of each judgement per model, with 95% intervals, as an SVG element."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with mpl.rc_context(_PLOT_STYLE):
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        axes = figure.subplots()
        width = 0.8 / len(GRADES)
        for offset, grade in enumerate(GRADES):
            xs = [index + (offset - 1) * width for index in range(len(results.models))]
            shares = [model.shares[grade] for model in results.models]
            values = [100 * share.value for share in shares]
            below = [100 * max(0.0, share.value - share.low) for share in shares]
            above = [100 * max(0.0, share.high - share.value) for share in shares]
            axes.bar(xs, values, width, label=grade, color=COLOURS[grade])
            axes.errorbar(xs, values, (below, above), fmt="none", ecolor="#333333", capsize=2, lw=1)
        axes.set_xticks(range(len(results.models)), [_label(m.model) for m in results.models])
        axes.set_ylabel("share of suggestions (%)")
        axes.set_ylim(0, 100)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.14))
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _label(name: str) -> str:
    """A name short enough for its neighbours."""
    return name if len(name) <= _LABEL_CHARACTERS else f"{name[: _LABEL_CHARACTERS - 1]}…"


PAPER_POSITIVE = 0.64
"""The share of HRED's suggestions that the paper's assessors found useful or somewhat useful."""
POSITIVE = "useful or somewhat useful"


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


def study_page(results: StudyResults, topics: Sequence[Sequence[Any]], plot: str) -> str:
    """The page: the plot, one section per group of topics, the assessors, one row per topic.

    The first row of `topics` is its header.
    """
    topic_header, *topic_rows = topics
    title = "Blind user study" if results.complete else "Blind user study: interim, not complete"
    parts = [
        f"<h1>{title}</h1>",
        f"<p>{len(topic_rows)} topics, {results.items} distinct suggestions, "
        f"{len(results.assessors)} assessors, {sum(results.assessors.values())} judgements.</p>",
        _missing(results),
        f"<figure>{plot}<figcaption class='note'>Share of each judgement per model, averaged "
        "over assessors; 95% intervals by bootstrap over queries.</figcaption></figure>",
        "<h2>Next to the paper</h2>",
        _table(
            ["model", POSITIVE, "suggestions judged"],
            [
                *([m.model, _share(m.positive), m.judged] for m in results.groups["all"].models),
                ["HRED in the paper (50 TREC topics, 5 assessors)", f"{PAPER_POSITIVE:.0%}", ""],
            ],
        ),
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
        _table(topic_header, topic_rows),
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


def make_report(study: Path, target: Path) -> StudyResults:
    """Evaluate the judgements made so far and publish the report folder.

    Refused before the first judgement: without people there is no study to report on.
    """
    check_target(target, "study-report")
    pool, key = read_pool(study), read_key(study)
    store = JudgementStore(study) if (study / FILE).exists() else None
    judgements = store.current() if store else []
    if store is None or not judgements:
        raise InputError(
            f"{study}: nobody has judged yet; run: nextquery study serve {study} "
            "(what needs no people: nextquery study first-pass)"
        )
    results = evaluate_study(pool, key, judgements, store.assessors())
    topics = _by_topic(pool, key, judgements)
    plot = draw_shares(results.groups["all"])
    entries: dict[str, Any] = {
        "counts": {"judgements": len(judgements), "missing": sum(results.missing.values())},
        "complete": results.complete,
    }
    with publish(target, "study-report", entries) as folder:
        write_text(folder / "results.json", json.dumps(asdict(results), indent=2) + "\n")
        write_text(folder / "figure8.svg", plot)
        # Topics and contexts may be sessions of single visitors: for the owner only.
        private = {
            "judgements.csv": _judgements_csv(pool, key, judgements),
            "topics.csv": _csv(topics),
            "index.html": study_page(results, topics, plot),
        }
        for name, text in private.items():
            write_text(folder / name, text, mode=0o600)
    return results


def _by_topic(pool: Pool, key: Key, judgements: Sequence[Judgement]) -> list[list[Any]]:
    """A header and one row per topic: the gain of every model on it."""
    gains = topic_gains(key, judgements, [pooled.id for pooled in pool.topics])
    rows: list[list[Any]] = [["topic", "query", "context", *key.given]]
    for pooled, *topic in zip(pool.topics, *gains.values(), strict=True):
        context = " > ".join(pooled.topic.context)
        rows.append([pooled.id, pooled.topic.query, context, *(round(float(g), 4) for g in topic)])
    return rows


def _judgements_csv(pool: Pool, key: Key, judgements: Sequence[Judgement]) -> str:
    """One row per judgement and model that gave the suggestion."""
    texts = {item.id: (t, item.text) for t in pool.topics for item in t.items}
    rows: list[list[Any]] = [["assessor", "topic", "suggestion", "model", "rank", "judgement"]]
    for judgement in judgements:
        topic, text = texts[judgement.item]
        for model, lists in key.given.items():
            if judgement.item in lists.get(topic.id, ()):
                rank = lists[topic.id].index(judgement.item) + 1
                query = topic.topic.query
                rows.append([judgement.assessor, query, text, model, rank, judgement.value])
    return _csv(rows)


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([[_safe_cell(cell) for cell in row] for row in rows])
    return buffer.getvalue()


def _safe_cell(cell: Any) -> Any:
    """A text that a spreadsheet would run as a formula is quoted."""
    dangerous = isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{cell}" if dangerous else cell
