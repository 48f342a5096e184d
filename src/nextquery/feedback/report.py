"""The report on a feedback folder, published as JSON and as a page."""

import json
from pathlib import Path

from nextquery.artifacts import publish, write_text
from nextquery.evaluation.record_json import to_json
from nextquery.feedback.impressions import read_feedback
from nextquery.feedback.report_page import feedback_page
from nextquery.feedback.report_results import FeedbackReport, report_on
from nextquery.feedback.settings import Bounds, ReportSettings


def make_report(
    folder: Path, target: Path, bounds: Bounds, settings: ReportSettings
) -> FeedbackReport:
    """Read a feedback folder and publish the report on it."""
    report = report_on(read_feedback(folder, bounds), settings)
    entries = {"counts": {"lists": report.lists.shown, "taken": report.lists.taken}}
    with publish(target, "feedback-report", entries) as out:
        write_text(out / "results.json", json.dumps(to_json(report), indent=2) + "\n")
        write_text(out / "index.html", feedback_page(report))
    return report
