"""The report of a study: one computation, written as JSON, CSV, a figure and a page."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nextquery.artifacts import publish, write_text
from nextquery.errors import InputError
from nextquery.study.judgements import FILE, GRADES, Judgement, JudgementStore
from nextquery.study.outcomes import Outcome, StudyOutcome, evaluate_study, topic_gains
from nextquery.study.pool import Key, Pool, read_key, read_pool
from nextquery.study.report_page import study_page

COLOURS = {"useful": "#0b6e63", "somewhat useful": "#d9a441", "not useful": "#c9c7c0"}


def make_report(study: Path, target: Path) -> StudyOutcome:
    """Evaluate the judgements made so far and publish the report folder."""
    if not (study / FILE).exists():
        raise InputError(f"{study}: nobody has judged yet; run: nextquery study serve {study}")
    pool, key, judgements = read_pool(study), read_key(study), JudgementStore(study).current()
    report = evaluate_study(pool, key, judgements)
    with publish(target, "study-report", {"counts": {"judgements": len(judgements)}}) as folder:
        write_text(folder / "results.json", json.dumps(as_json(report), indent=2) + "\n")
        write_text(folder / "judgements.csv", _judgements_csv(pool, key, judgements))
        header, rows = _by_topic(pool, key, judgements)
        write_text(folder / "topics.csv", _csv(header, rows))
        figure = _figure(report.groups["all"])
        write_text(folder / "figure8.svg", figure)
        write_text(folder / "index.html", study_page(report, header, rows, figure))
    return report


def as_json(report: StudyOutcome) -> dict[str, Any]:
    """The report as plain values."""
    return asdict(report)


def _figure(outcome: Outcome) -> str:
    """The paper's Figure 8: the share of each judgement per model, with 95% intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(GRADES)
    for offset, grade in enumerate(GRADES):
        shares = [model.shares[grade] for model in outcome.models]
        places = [index + (offset - 1) * width for index in range(len(shares))]
        values = [100 * share.value for share in shares]
        errors = [
            [100 * max(0.0, share.value - share.low) for share in shares],
            [100 * max(0.0, share.high - share.value) for share in shares],
        ]
        axes.bar(places, values, width, label=grade, color=COLOURS[grade])
        axes.errorbar(places, values, errors, fmt="none", ecolor="#333333", capsize=2, lw=1)
    axes.set_xticks(range(len(outcome.models)), [model.model for model in outcome.models])
    axes.set_ylabel("share of suggestions (%)")
    axes.set_ylim(0, 100)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.14))
    return _svg(figure)


def _svg(figure: Any) -> str:
    """The figure as an SVG element, with the same bytes for the same figure."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "nextquery", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _by_topic(
    pool: Pool, key: Key, judgements: Sequence[Judgement]
) -> tuple[list[str], list[list[Any]]]:
    """A header and a row a topic: the gain of every model on it."""
    rows: list[list[Any]] = []
    for pooled in pool.topics:
        gains = topic_gains(key, judgements, pooled.id)
        context = " > ".join(pooled.topic.context)
        rows.append([pooled.id, pooled.topic.query, context, *(round(g, 4) for g in gains)])
    return ["topic", "query", "context", *key.given], rows


def _judgements_csv(pool: Pool, key: Key, judgements: Sequence[Judgement]) -> str:
    """A row a judgement and model that gave the suggestion."""
    texts = {item.id: (t, item.text) for t in pool.topics for item in t.items}
    rows = []
    for judgement in judgements:
        topic, text = texts[judgement.item]
        for model, lists in key.given.items():
            if judgement.item in lists.get(topic.id, ()):
                rank = lists[topic.id].index(judgement.item) + 1
                query = topic.topic.query
                rows.append([judgement.assessor, query, text, model, rank, judgement.value])
    return _csv(["assessor", "topic", "suggestion", "model", "rank", "judgement"], rows)


def _csv(header: list[str], rows: list[list[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[_safe_cell(cell) for cell in row] for row in rows])
    return buffer.getvalue()


def _safe_cell(cell: Any) -> Any:
    """A text that a spreadsheet would run as a formula is quoted."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell
