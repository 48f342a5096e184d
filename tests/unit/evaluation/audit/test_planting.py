"""What is planted is new, drawn by a seed, and as many as asked for."""

from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.evaluation.planting import Planted, PlantingSettings, make_plan

SESSIONS = [
    (f"user{n % 5}", (f"paris number{n % 12}", f"hotel number{(n * 7) % 12} cheap"))
    for n in range(60)
]
FEW = PlantingSettings(canary_users=(0, 2), canaries=3, fake_users=(1, 4), contexts=2, decoys=31)


@pytest.fixture
def data(prepared: Any, tiny_log: Any) -> Any:
    words = [(f"w{n}", tuple(f"w{k} w{k + 20}" for k in range(20))) for n in range(3)]
    return prepared(tiny_log([*SESSIONS, *words]))


def test_every_text_is_new_and_used_once(data: Any) -> None:
    plan = make_plan(data, FEW)
    typed = {query for session in data.sessions("background") for query in session.queries}
    texts = [each.text for each in (*plan.canaries, *plan.attacks)] + list(plan.decoys)
    assert len(texts) == len(set(texts)) == 2 * 3 + 2 * 2 + 31
    assert not typed & set(texts)
    assert all(len(each.text.split()) == 3 for each in plan.canaries)
    contexts = [each.context for each in (*plan.canaries, *plan.attacks)]
    assert len(set(contexts)) == len(contexts)
    assert set(contexts) <= typed


def test_people_type_it_as_often_as_planned(data: Any) -> None:
    plan = make_plan(data, FEW)
    sessions = plan.sessions()
    assert len(sessions) == 3 * 2 + 2 * (1 + 4)
    assert len({session.user for session in sessions}) == len(sessions)
    assert list(Planted("a", "b", 0).sessions("nobody")) == []
    assert make_plan(data, FEW) == plan
    assert make_plan(data, PlantingSettings(**{**vars(FEW), "seed": 1})) != plan


def test_a_small_log_is_refused(prepared: Any, tiny_log: Any) -> None:
    with pytest.raises(InputError, match="too few to plant"):
        make_plan(prepared(tiny_log(SESSIONS)), PlantingSettings())
