"""The probe on made-up sessions, with systems whose knowledge is known."""

import math
from collections.abc import Sequence

import pytest

from nextquery.evaluation.probes.hidden_intent import (
    FEWEST,
    intent_cases,
    intent_result,
    traces,
)
from nextquery.logs.synthetic.log import make_log
from nextquery.records import ScoredQuery, Session


def sessions(count: int = 300, *, shuffled: bool = False) -> list[Session]:
    log = make_log(count, 3, shuffled=shuffled).queries
    texts = log.group_by("session", maintain_order=True).agg("text")
    return [Session(number, "user", tuple(queries)) for number, queries in texts.iter_rows()]


class Uniform:
    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        return [ScoredQuery(text, -5.0, 2) for text in candidates]


class LastTrace:
    """Believes in the intent of the last trace within so many queries, and in no outcome."""

    def __init__(self, reach: int) -> None:
        self._reach = reach

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        found = [traces()[query].intent for query in context[-self._reach :] if query in traces()]
        believed = found[-1] if found else None
        scores = (
            math.log(9.0) if traces()[text].intent == believed else 0.0 for text in candidates
        )
        return [ScoredQuery(text, score, 2) for text, score in zip(candidates, scores, strict=True)]


def test_cases_are_outcomes_after_a_trace_of_the_same_domain() -> None:
    session = Session(7, "user", ("backpacking rome", "paris", "google", "paris hostels"))
    found = intent_cases([session], 10)
    (case,) = found.cases.cases
    assert found.distances == (3,)
    assert case.next_query == "paris hostels"
    assert case.context == session.queries[:3]
    assert len(case.candidates) == 16
    assert len({traces()[text].intent for text in case.candidates[:4]}) == 1


@pytest.mark.parametrize(
    "queries",
    [
        ("paris", "paris hostels"),  # nothing tells the intent
        ("backpacking rome", "paris"),  # no outcome
        ("paris hostels",),
    ],
)
def test_no_case_without_a_trace_or_an_outcome(queries: tuple[str, ...]) -> None:
    assert not intent_cases([Session(1, "user", queries)], 10).cases.cases


def test_a_trace_of_another_domain_is_none() -> None:
    other = next(text for text, trace in traces().items() if trace.domain != 0)
    domain = traces()["paris hostels"].domain
    assert traces()[other].domain != domain
    assert not intent_cases([Session(1, "user", (other, "paris hostels"))], 10).cases.cases


def test_who_sees_nothing_is_at_chance_at_every_distance() -> None:
    found = intent_result(Uniform(), sessions())
    assert found is not None
    assert found.nats == pytest.approx(math.log(16))
    assert found.intent == pytest.approx(0.25)
    assert [each.distance for each in found.by_distance] == [1, 2, 3, 4, 5]
    assert sum(each.cases for each in found.by_distance) == found.cases > 200
    for each in found.by_distance:
        assert each.nats == pytest.approx(math.log(16))


def test_who_sees_two_queries_knows_the_intent_that_far() -> None:
    found = intent_result(LastTrace(2), sessions())
    assert found is not None
    near, farther = found.by_distance[:2], found.by_distance[2:]
    assert all(each.intent > 0.5 and each.nats < 2.3 for each in near)
    for each in farther:
        assert each.nats == pytest.approx(math.log(16))


def test_the_shuffled_control_has_nothing_to_see() -> None:
    made, control = (
        intent_result(LastTrace(9), sessions(2000, shuffled=shuffled), most=400)
        for shuffled in (False, True)
    )
    assert made is not None
    assert made.intent > 0.5
    assert control is not None
    assert 0.15 < control.intent < 0.35


def test_another_log_has_no_result() -> None:
    other = [Session(n, "user", ("red shoes", "blue shoes")) for n in range(FEWEST * 2)]
    assert intent_result(Uniform(), other) is None


def test_at_most_so_many_cases() -> None:
    found = intent_result(Uniform(), sessions(), most=50)
    assert found is not None
    assert found.cases == 50
