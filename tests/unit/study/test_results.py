"""Results of a study: agreement, comparisons, first pass."""

import numpy as np
import pytest

from nextquery.study.judgements import NOT_USEFUL, SOMEWHAT, USEFUL, Judgement
from nextquery.study.pool import Item, Key, Pool, PooledTopic, Topic
from nextquery.study.results import (
    compare,
    evaluate,
    evaluate_study,
    fleiss_kappa,
    holm,
    krippendorff_alpha,
)

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


def test_without_judgements_nothing_breaks() -> None:
    outcome = evaluate(POOL, KEY, [], [0, 1])
    assert all(model.judged == 0 for model in outcome.models)
    assert outcome.agreement.fleiss_kappa is None


def test_positive_is_useful_and_somewhat_useful_together() -> None:
    a, b = evaluate(POOL, KEY, JUDGEMENTS, [0, 1]).models
    assert a.positive.value == pytest.approx(2.5 / 3)
    assert b.positive.value == pytest.approx(1)
    assert a.positive.low <= a.positive.value <= a.positive.high


def test_contexts_of_a_query_are_one_unit() -> None:
    # "jaguar" twice (two contexts) and "python": two units. A's gains 1/2, 1/4 | 1/2.
    contexts = (("cats",), ("cars",))
    items = ((Item(0, "a"), Item(1, "b")), (Item(2, "c"),))
    jaguars = [PooledTopic(n, Topic("Jaguar", "", contexts[n]), items[n]) for n in (0, 1)]
    pool = Pool(1, (*jaguars, PooledTopic(2, Topic("python"), (Item(3, "d"),))))
    key = Key(2, {"A": {0: (0,), 1: (2,), 2: (3,)}, "B": {0: (1,), 1: (), 2: ()}})
    judged = {0: USEFUL, 1: NOT_USEFUL, 2: SOMEWHAT, 3: USEFUL}
    group = evaluate(pool, key, [Judgement(1, i, v) for i, v in judged.items()], [0, 1, 2])
    a, b = group.models
    assert group.queries == 2
    assert a.gain == pytest.approx(((1 / 2 + 1 / 4) / 2 + 1 / 2) / 2)
    assert b.gain == 0
    assert group.comparisons[0].difference == pytest.approx(a.gain)
    # Shares count suggestions: two of three are useful.
    assert a.shares[USEFUL].value == pytest.approx(2 / 3)
    # Drawn are queries: with two of them the share is 1/2, 2/3 or 1, and never 0 or 1/3.
    assert a.shares[USEFUL].low == pytest.approx(0.5)
    assert a.shares[USEFUL].high == 1


def test_a_study_is_complete_when_every_assessor_has_judged_everything() -> None:
    everything = [Judgement(who, item, USEFUL) for who in (1, 2) for item in range(3)]
    assert evaluate_study(POOL, KEY, everything, [1, 2]).complete
    silent = evaluate_study(POOL, KEY, everything, [1, 2, 3])
    assert not silent.complete
    assert silent.missing == {3: 3}
    assert silent.assessors == {1: 3, 2: 3, 3: 0}
    partly = evaluate_study(POOL, KEY, everything[:-1], [1, 2])
    assert (partly.complete, partly.missing) == (False, {2: 1})
    assert not evaluate_study(POOL, KEY, [], []).complete


def test_perfect_agreement_is_one() -> None:
    ratings = [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    assert fleiss_kappa(ratings) == pytest.approx(1)
    assert krippendorff_alpha(ratings) == pytest.approx(1)


def test_kappa_by_hand() -> None:
    # Two items, three assessors: [2, 2, 2] and [2, 0, 0].
    # P = (1 + 1/3) / 2 = 2/3; shares 2/6 and 4/6: P_e = 1/9 + 4/9 = 5/9.
    assert fleiss_kappa([[2, 2, 2], [2, 0, 0]]) == pytest.approx((2 / 3 - 5 / 9) / (4 / 9))


def test_alpha_by_hand() -> None:
    # Pairs (0,0), (0,2), (2,2): coincidences o00 = 2, o02 = o20 = 1, o22 = 2; n0 = n2 = 3.
    # With two grades in use the ordinal difference is one constant: alpha = 1 - 5 * 2 / (2 * 9).
    assert krippendorff_alpha([[0, 0], [0, 2], [2, 2]]) == pytest.approx(1 - 10 / 18)


def test_alpha_counts_a_near_miss_less_than_a_far_one() -> None:
    near = krippendorff_alpha([[0, 0], [1, 1], [2, 2], [1, 2]])
    far = krippendorff_alpha([[0, 0], [1, 1], [2, 2], [0, 2]])
    assert near is not None
    assert far is not None
    assert near > far


def test_coin_flips_are_near_zero() -> None:
    ratings = np.random.default_rng(5).integers(0, 3, (4000, 5)).tolist()
    assert fleiss_kappa(ratings) == pytest.approx(0, abs=0.02)
    assert krippendorff_alpha(ratings) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("ratings", [[], [[1]], [[1, 1], [1, 1]]])
def test_undefined_is_none(ratings: list[list[int]]) -> None:
    assert fleiss_kappa(ratings) is None
    assert krippendorff_alpha(ratings) is None


def test_items_may_have_different_numbers_of_grades() -> None:
    assert fleiss_kappa([[0, 0, 0], [2, 2], [1]]) == pytest.approx(1)


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
