"""The report of a study: one computation, written as JSON, CSV, a plot and a page."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nextquery.artifacts import publish, write_text
from nextquery.errors import InputError
from nextquery.study.judgements import FILE, Judgement, JudgementStore
from nextquery.study.plots import draw_shares
from nextquery.study.pool import Key, Pool, read_key, read_pool
from nextquery.study.report_page import TopicTable, study_page
from nextquery.study.results import StudyResults, evaluate_study, topic_gains


def make_report(study: Path, target: Path) -> StudyResults:
    """Evaluate the judgements made so far and publish the report folder.

    Refused before the first judgement: without people there is no study to report on.
    """
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
        write_text(folder / "results.json", json.dumps(as_json(results), indent=2) + "\n")
        write_text(folder / "judgements.csv", _judgements_csv(pool, key, judgements))
        write_text(folder / "topics.csv", _csv(topics.header, topics.rows))
        write_text(folder / "figure8.svg", plot)
        write_text(folder / "index.html", study_page(results, topics, plot))
    return results


def as_json(results: StudyResults) -> dict[str, Any]:
    """The results as plain values."""
    return asdict(results)


def _by_topic(pool: Pool, key: Key, judgements: Sequence[Judgement]) -> TopicTable:
    """One row per topic: the gain of every model on it."""
    rows: list[list[Any]] = []
    for pooled in pool.topics:
        gains = topic_gains(key, judgements, pooled.id)
        context = " > ".join(pooled.topic.context)
        rows.append([pooled.id, pooled.topic.query, context, *(round(g, 4) for g in gains)])
    return TopicTable(["topic", "query", "context", *key.given], rows)


def _judgements_csv(pool: Pool, key: Key, judgements: Sequence[Judgement]) -> str:
    """One row per judgement and model that gave the suggestion."""
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


def _csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([[_safe_cell(cell) for cell in row] for row in (header, *rows)])
    return buffer.getvalue()


def _safe_cell(cell: Any) -> Any:
    """A text that a spreadsheet would run as a formula is quoted."""
    dangerous = isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{cell}" if dangerous else cell
