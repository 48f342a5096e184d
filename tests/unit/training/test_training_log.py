"""What a run tells: one JSON document per line, resumed where the checkpoint stands."""

import json
from pathlib import Path

import pytest

from nextquery.training.trainer import EVENTS, METRICS, TrainingLog, read_metrics


def test_reports_before_a_checkpoint_are_kept_and_later_ones_dropped(tmp_path: Path) -> None:
    file = tmp_path / METRICS
    file.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n{"step": 3, "lo')
    with TrainingLog(tmp_path, 1, 10, 1) as training_log:
        training_log.report(2, {"loss": 1.5, "words_per_second": 1.0})
    assert [json.loads(line)["loss"] for line in file.read_text().splitlines()] == [2.0, 1.5]


def test_a_run_that_has_not_begun_has_no_metrics(tmp_path: Path) -> None:
    assert list(read_metrics(tmp_path / METRICS)) == []


def test_a_validation_is_a_line_for_people_and_one_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"epoch": 2, "validation_nll": 2.0, "validation_perplexity": 7.389}
    with TrainingLog(tmp_path, 0, 10, 3) as training_log:
        training_log.report(5, {"loss": 1.0, "words_per_second": 1234.4})
        training_log.validation(5, values)
    assert list(read_metrics(tmp_path / METRICS))[1] == {"step": 5, **values}
    told = " ".join(capsys.readouterr().err.split())
    assert "step 5: epoch 2, training perplexity 2.7, validation perplexity 7.4" in told
    assert "words/s 1234" in told
    assert list((tmp_path / EVENTS).iterdir())


def test_a_line_is_on_the_disk_before_the_run_ends(tmp_path: Path) -> None:
    with TrainingLog(tmp_path, 0, 10, 1) as training_log:
        training_log.report(1, {"loss": 1e9, "words_per_second": 1.0})
        [entry] = read_metrics(tmp_path / METRICS)
    assert entry["loss"] == 1e9
