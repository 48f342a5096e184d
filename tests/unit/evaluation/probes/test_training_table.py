import json
from pathlib import Path

from nextquery.artifacts import publish
from nextquery.evaluation.paper import training_table
from nextquery.records import ScoredQuery


class Own:
    """A system without a folder."""

    def score(self, context: object, candidates: object) -> list[ScoredQuery]:
        return []


def test_size_settings_and_best_validation_of_a_folder(tmp_path: Path) -> None:
    entries = {"model": {"copy": True}, "training": {"steps": 7}}
    lines = [{"step": 1, "loss": 3.0}, *({"step": s, "validation_nll": 2 / s} for s in (2, 4, 3))]
    with publish(tmp_path / "model", "hred", entries) as folder:
        (folder / "weights.safetensors").write_bytes(bytes(2_000_000))
        (folder / "vocabulary.txt").write_text("a\n")
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    found = training_table({"hred": tmp_path / "model", "mine": Own()})

    assert list(found) == ["hred"]
    assert found["hred"].megabytes == 2.0
    assert found["hred"].model == {"copy": True}
    assert found["hred"].training == {"steps": 7}
    assert found["hred"].best_validation == {"step": 4, "validation_nll": 0.5}


def test_a_model_that_was_not_trained_has_no_metrics(tmp_path: Path) -> None:
    with publish(tmp_path / "model", "adjacency", {}):
        pass

    found = training_table({"adj": tmp_path / "model"})["adj"]
    assert (found.megabytes, found.training, found.best_validation) == (0.0, None, None)
