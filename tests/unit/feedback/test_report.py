import json
from pathlib import Path

import pytest
from tests.unit.feedback.test_impressions import SERVED, SHOWN, TAKEN, write

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError
from nextquery.feedback.report import make_report
from nextquery.feedback.settings import Bounds, ReportSettings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for event in (SERVED, SHOWN, TAKEN):
        write(tmp_path / "feedback", event)
    return tmp_path / "feedback"


def test_a_report_is_an_artifact_with_json_and_a_page(folder: Path, tmp_path: Path) -> None:
    made = make_report(folder, tmp_path / "report", Bounds(), ReportSettings())
    assert open_artifact(tmp_path / "report").kind == "feedback-report"
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert results["lists"]["taken"] == made.lists.taken == 1
    assert set(results) >= {
        "by_position", "by_model", "by_query", "by_source", "by_day", "never_taken",
        "position_bias", "excluded",
    }  # fmt: skip
    assert "Feedback report" in (tmp_path / "report" / "index.html").read_text()


def test_no_other_folder_is_overwritten(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError):
        make_report(folder, folder, Bounds(), ReportSettings())
