"""The paper's own results and examples, and the facts of training."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nextquery import __version__
from nextquery.artifacts import publish
from nextquery.evaluation.paper import (
    FIGURE_7,
    PAPER,
    TABLE_1,
    missing_words,
    paper_examples,
    training_table,
)
from nextquery.evaluation.scenarios import SCENARIOS
from nextquery.records import ScoredQuery
from nextquery.suggesters.neural import HREDSuggester

MakeModel = Callable[[tuple[str, ...]], HREDSuggester]


@pytest.fixture
def examples_words() -> tuple[str, ...]:
    contexts = [*TABLE_1, FIGURE_7]
    return tuple(dict.fromkeys(w for context in contexts for q in context for w in q.split()))


def test_a_model_that_knows_all_words_answers_all(
    untrained: MakeModel, examples_words: tuple[str, ...]
) -> None:
    found = paper_examples({"hred": untrained(examples_words), "other": object()})

    assert list(found) == ["hred"]
    assert [each.context for each in found["hred"].table_1] == list(TABLE_1)
    assert all(0 < len(each.suggestions) <= 5 for each in found["hred"].table_1)
    figure = found["hred"].figure_7
    assert figure is not None
    assert figure.queries == ("airlines", "united airlines", "google")
    assert len(figure.gates) == 3
    assert all(0 <= gate <= 1 for row in figure.gates for gate in row)


def test_a_missing_word_is_named_and_nothing_is_asked(
    untrained: MakeModel, examples_words: tuple[str, ...]
) -> None:
    model = untrained(tuple(word for word in examples_words if word not in ("erie", "google")))
    found = paper_examples({"hred": model})["hred"]

    assert found.table_1[0].missing_words == ()
    assert found.table_1[1].missing_words == ("erie",)
    assert found.table_1[1].suggestions == ()
    assert found.figure_7 is None
    assert missing_words(model, ["lake erie", "erie google"]) == ("erie", "google")


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


def test_the_papers_gains_follow_from_its_mrrs() -> None:
    assert PAPER["next_query"].gain("baseline") == pytest.approx(0.033, abs=0.0005)
    assert PAPER["robust"].gain("baseline") == pytest.approx(0.099, abs=0.0005)
    assert PAPER["long_tail"].gain("adj") == pytest.approx(0.857, abs=0.0005)


def test_every_scenario_of_the_paper_is_one_of_ours() -> None:
    assert set(PAPER) < set(SCENARIOS)


def test_citations_name_the_present_version() -> None:
    root = Path(__file__).parents[4]
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    page = (root / "docs" / "how-to" / "experiments.md").read_text(encoding="utf-8")
    assert re.findall("^version: (.*)$", citation, re.MULTILINE) == [__version__]
    assert f"version = {{{__version__}}}" in page
    for text in (citation, page):
        assert "10.1145/2806416.2806493" in text
