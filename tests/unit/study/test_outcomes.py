import numpy as np
import pytest

from nextquery.study.judgements import NOT_USEFUL, SOMEWHAT, USEFUL, Judgement
from nextquery.study.outcomes import compare, evaluate, holm
from nextquery.study.pool import Item, Key, Pool, PooledTopic
from nextquery.study.topics import Topic

POOL = Pool(
    1,
    (
        PooledTopic(0, Topic("jaguar"), (Item(0, "jaguar car"), Item(1, "jaguar cat"))),
        PooledTopic(1, Topic("python"), (Item(2, "python snake"),)),
    ),
)
KEY = Key(2, {"A": {0: (0, 1), 1: (2,)}, "B": {0: (1,), 1: ()}})
JUDGEMENTS = [
    Judgement(1, 0, USEFUL),
    Judgement(2, 0, NOT_USEFUL),
    Judgement(1, 1, SOMEWHAT),
    Judgement(2, 1, SOMEWHAT),
    Judgement(1, 2, USEFUL),
]


def test_shares_and_gain_by_hand() -> None:
    a, b = evaluate(POOL, KEY, JUDGEMENTS, [0, 1]).models
    # A: item 0 is half useful, half not; item 1 somewhat; item 2 useful.
    assert a.model == "A"
    assert a.shares[USEFUL].value == pytest.approx(1.5 / 3)
    assert a.shares[SOMEWHAT].value == pytest.approx(1 / 3)
    assert a.shares[NOT_USEFUL].value == pytest.approx(0.5 / 3)
    # Topic 0: (1 + 1) of 4, topic 1: 2 of 4.
    assert a.gain == pytest.approx(0.5)
    # B: one somewhat useful suggestion in four places.
    assert b.gain == pytest.approx(0.125)
    assert (b.suggestions, b.topics_covered) == (1, 1)


def test_intervals_hold_the_value() -> None:
    for model in evaluate(POOL, KEY, JUDGEMENTS, [0, 1]).models:
        for share in model.shares.values():
            assert share.low <= share.value + 1e-12
            assert share.value <= share.high + 1e-12


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_a_clear_difference_is_significant_and_no_difference_is_not() -> None:
    draw = np.random.default_rng(1)
    base = draw.uniform(0, 0.5, 30)
    first, second, *_ = compare({"a": base + 0.3, "b": base, "c": base}, seed=1)
    assert first.p_corrected < 0.01
    assert second.p_corrected < 0.01
    assert compare({"a": base, "b": base}, seed=1)[0].p == 1


def test_without_judgements_nothing_breaks() -> None:
    outcome = evaluate(POOL, KEY, [], [0, 1])
    assert all(model.judged == 0 for model in outcome.models)
    assert outcome.agreement.fleiss_kappa is None
