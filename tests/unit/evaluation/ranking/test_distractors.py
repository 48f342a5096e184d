from nextquery.evaluation.scenarios import SHARING, DistractorPool
from nextquery.records import Session


def session(number: int, *queries: str) -> Session:
    return Session(number, "user", queries)


def test_a_pool_too_small_gives_fewer_distractors() -> None:
    sessions = [session(n, "a", f"next {n}") for n in range(5)]

    drawn = DistractorPool(sessions).draw(sessions[0], 19, seed=0)

    assert sorted(drawn) == ["next 1", "next 2", "next 3", "next 4"]


def test_some_distractors_share_a_word_and_none_is_of_the_same_session() -> None:
    sessions = [session(n, f"first {n}", f"car {n}", f"boat {n}") for n in range(100)]
    drawn = DistractorPool(sessions).draw(sessions[7], 19, seed=0)

    assert len(set(drawn)) == 19
    assert not {"car 7", "boat 7"} & set(drawn)
    assert sum("car" in text for text in drawn) >= SHARING


def test_the_draw_depends_on_session_and_seed_only() -> None:
    sessions = [session(n, "a", f"next {n}") for n in range(100)]
    pool = DistractorPool(sessions)

    assert pool.draw(sessions[3], 5, 0) == pool.draw(sessions[3], 5, 0)
    assert pool.draw(sessions[3], 5, 0) != pool.draw(sessions[3], 5, 1)
    assert pool.draw(sessions[3], 5, 0) != pool.draw(sessions[4], 5, 0)
