"""`nextquery train`: its summary, and what is refused before anything is read."""

from pathlib import Path

from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.cli.train import _summary

FACTS: dict[str, object] = {
    "seconds": 200.0,
    "steps": 1200,
    "best_step": 1100,
    "validation_perplexity_by_context": {"0": 20.04, "all": 8.0},
}


def test_the_summary_says_what_to_do_next() -> None:
    assert _summary(Path("model"), FACTS).splitlines() == [
        "model: trained in 3m 20s, 1200 steps, best at step 1100",
        "validation perplexity by number of earlier queries: 0: 20.0, all: 8.0",
        "try: nextquery suggest model 'a query' 'the next one'",
    ]


def test_a_config_that_is_none_and_a_key_that_is_none(tmp_path: Path) -> None:
    words = ["train", str(tmp_path), "--out", str(tmp_path / "model")]
    failed = CliRunner().invoke(app, [*words, "--config", "enormous"])
    assert "enormous" in str(failed.exception)
    failed = CliRunner().invoke(app, [*words, "--set", "train.epoch=3"])
    assert "epoch" in str(failed.exception)
    assert not (tmp_path / "model").exists()
