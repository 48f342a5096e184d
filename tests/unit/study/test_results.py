import pytest

from nextquery.study.judgements import NOT_USEFUL, SOMEWHAT, USEFUL, Judgement
from nextquery.study.pool import Item, Key, Pool, PooledTopic, Topic
from nextquery.study.results import evaluate, evaluate_study

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
