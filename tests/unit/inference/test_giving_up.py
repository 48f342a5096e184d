"""Every way to ask a model looks between two steps whether the answer is still wanted."""

from collections.abc import Callable
from typing import Any

import pytest

from nextquery.inference.cancellation import DecodingCancelledError, cancel_when, raise_if_cancelled
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig

CONFIG = DecodeConfig(beam=5, max_words=4, fold=False, specificity=0.0)
SAMPLED = CONFIG.model_copy(update={"strategy": "sample"})
ASKED: dict[str, Callable[[Predictor, Any], object]] = {
    "beam": lambda predictor, state: predictor.suggest_many([state], 5, CONFIG),
    "sampling": lambda predictor, state: predictor.suggest_many([state], 5, SAMPLED),
    "completion": lambda predictor, state: predictor.complete(state, "w1", 5, CONFIG),
    "rescoring": lambda predictor, state: predictor.score_many([state], [["w1 w2", "w3"]]),
}


@pytest.mark.parametrize("way", ASKED)
def test_it_is_given_up_before_the_next_step(predictor: Predictor, way: str) -> None:
    state = predictor.encoder.encode(["w1 w2"])
    looks: list[int] = []

    def unwanted() -> bool:
        looks.append(1)
        return len(looks) == 2

    expected = ASKED[way](predictor, state)
    with cancel_when(unwanted), pytest.raises(DecodingCancelledError):
        ASKED[way](predictor, state)
    assert len(looks) == 2
    assert ASKED[way](predictor, state) == expected  # nobody asks any more


def test_blocks_inside_each_other() -> None:
    with cancel_when(lambda: False):
        with cancel_when(lambda: True), pytest.raises(DecodingCancelledError):
            raise_if_cancelled()
        raise_if_cancelled()
    raise_if_cancelled()
