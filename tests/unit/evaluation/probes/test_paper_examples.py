"""The paper's examples with an untrained model that knows some of their words."""

from collections.abc import Callable

import pytest

from nextquery.evaluation.paper import FIGURE_7, TABLE_1, missing_words, paper_examples
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
