"""What the parts of a blend hold likely."""

import math
from pathlib import Path

import numpy as np
import pytest

from nextquery import load
from nextquery.suggesters.base import Trained
from nextquery.suggesters.blend import Mixture, Parts


@pytest.fixture(scope="module")
def asked(parts: list[Path]) -> Parts:
    trained, *members = map(load, parts)
    assert isinstance(trained, Trained)
    return Parts(trained, members, Mixture.of(np.full((4, 3), 1 / 3)))


def test_the_row_says_who_has_candidates(asked: Parts) -> None:
    assert asked.row(("oslo hotels",)) == 3
    assert asked.row(()) == 4
    assert asked.row(("museum in oslo",)) == 2  # its words are known, the query is not


def test_a_word_that_the_trained_model_lacks_is_one_of_many(
    asked: Parts, parts: list[Path]
) -> None:
    trained = load(parts[0])
    assert isinstance(trained, Trained)
    scored = trained.score((), ["oslo zyzzyva"])
    own = asked.logs((), scored)[0, 0]
    assert own == pytest.approx(scored[0].log_likelihood - math.log(len(trained.model.vocabulary)))


def test_priors_are_likelihoods_without_a_session(asked: Parts, parts: list[Path]) -> None:
    text = "rome hotels"
    single = [math.exp(load(part).score((), [text])[0].log_likelihood) for part in parts]
    assert math.exp(asked.log_priors([text])[text]) == pytest.approx(sum(single) / 3, rel=1e-3)
