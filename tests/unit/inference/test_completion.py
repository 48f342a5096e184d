"""Completions go on from what is typed, and score like any other query."""

from pathlib import Path
from typing import Any

import pytest

from nextquery.guard.guard import Guard
from nextquery.inference.completion import TypedPrefix, WordIndex
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import Vocabulary

from .conftest import ModelMaker, predictor_of

CONFIG = DecodeConfig(beam=30, max_words=4, fold=False)


@pytest.mark.parametrize(
    ("text", "words", "beginning"),
    [
        ("", (), ""),
        ("  ", (), ""),
        ("Cheap fl", ("cheap",), "fl"),
        ("cheap ", ("cheap",), ""),
        ("cheap,", ("cheap",), ""),
        ("Ch", (), "ch"),
    ],
)
def test_the_last_word_is_whole_only_when_something_follows(
    text: str, words: tuple[str, ...], beginning: str
) -> None:
    assert TypedPrefix.read(text) == TypedPrefix(words, beginning)


def test_words_are_found_by_their_beginning() -> None:
    index = WordIndex(Vocabulary(["paris", "party", "pa", "rome", "park"]))
    vocabulary = Vocabulary(["paris", "party", "pa", "rome", "park"])
    found = [vocabulary.words[word] for word in index.beginning_with("par")]
    assert found == ["paris", "park", "party"]
    assert index.beginning_with("x") == []


def test_an_empty_prefix_equals_suggest(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])
    assert (
        predictor.complete(state, " ", 8, CONFIG) == predictor.suggest_many([state], 8, CONFIG)[0]
    )


def test_completions_begin_with_what_is_typed_and_score_as_rescored(
    any_predictor: Predictor,
) -> None:
    state = any_predictor.encoder.encode(["w1 w2", "w3 zebra"])
    for prefix in ("w1", "w5 ", "w5 w2", "w5 unheard w1"):
        completions = any_predictor.complete(state, prefix, 10, CONFIG)
        assert len(completions) == 10
        texts = [each.text for each in completions]
        assert all(text.startswith(prefix.rstrip()) and text != prefix for text in texts)
        scored = any_predictor.score_many([state], [texts])[0]
        assert [each.score for each in completions] == pytest.approx(
            [score.log_likelihood for score in scored], abs=1e-4
        )


def test_a_whole_word_is_not_extended(predictor: Predictor) -> None:
    found = predictor.complete(predictor.encoder.start(), "w1 ", 20, CONFIG)
    assert {each.text.split()[0] for each in found} == {"w1"}
    found = predictor.complete(predictor.encoder.start(), "w1", 20, CONFIG)
    assert len({each.text.split()[0] for each in found}) > 1


def test_the_most_likely_next_word_comes_first(predictor: Predictor) -> None:
    """Next-word prediction is completion after a whole word."""
    state = predictor.encoder.encode(["w1 w2"])
    config = DecodeConfig(beam=50, min_words=2, max_words=2, fold=False)
    found = predictor.complete(state, "w7 ", 3, config)
    words = [f"w7 w{number}" for number in range(40)]
    scored = predictor.score_many([state], [words])[0]
    best = sorted(scored, key=lambda each: -each.log_likelihood)
    two = [each.text for each in found if len(each.text.split()) == 2]
    assert two[0] == best[0].text


def test_a_copied_name_is_completed(make_model: ModelMaker) -> None:
    for copying in (False, True):
        predictor = predictor_of(make_model(copy=copying))
        state = predictor.encoder.encode(["zebrafish w1"])
        found = predictor.complete(state, "w2 zeb", 10, CONFIG)
        assert any(each.text.split()[1] == "zebrafish" for each in found) == copying
        assert all(each.text.split()[1] in ("zeb", "zebrafish") for each in found)


def test_a_beginning_that_no_word_has_is_taken_as_a_word(predictor: Predictor) -> None:
    found = predictor.complete(predictor.encoder.start(), "qqq", 5, CONFIG)
    assert found
    assert all(each.text.startswith("qqq ") for each in found)


@pytest.mark.parametrize("prefix", ["w1", "w5 unheard w1", "qqq"])
def test_completions_are_drawn_where_the_strategy_is_to_sample(
    predictor: Predictor, prefix: str
) -> None:
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])

    def draw(seed: int, **settings: Any) -> list[str]:
        given = {"beam": 12, "max_words": 4, "fold": False, "known": "free", **settings}
        config = DecodeConfig(strategy="sample", seed=seed, **given)
        found = predictor.complete(state, prefix, 12, config)
        assert all(each.text.startswith(prefix.rstrip()) and each.text != prefix for each in found)
        scored = predictor.score_many([state], [[each.text for each in found]])[0]
        for suggestion, score in zip(found, scored, strict=True):
            assert suggestion.score == pytest.approx(score.log_likelihood, abs=1e-4)
        return [each.text for each in found]

    assert draw(1) == draw(1)
    assert any(draw(1) != draw(seed) for seed in range(2, 5))
    assert len(draw(1, top_k=1)) <= 1
    bold = {text.split()[-1] for seed in range(4) for text in draw(seed, temperature=50.0)}
    assert len(bold) > 8


def test_a_prefix_without_an_allowed_word_has_no_drawn_completion(
    make_model: ModelMaker, tmp_path: Path
) -> None:
    file = tmp_path / "list.txt"
    file.write_text("\n".join(["w1", *(f"w1{number}" for number in range(10))]), encoding="utf-8")
    predictor = predictor_of(make_model(), Guard(blocklist=file))
    for strategy in ("beam", "sample"):
        config = CONFIG.model_copy(update={"strategy": strategy})
        assert predictor.complete(predictor.encoder.start(), "w1", 5, config) == []
