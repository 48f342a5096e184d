import pytest

from nextquery.service.engine import (
    CompleteQuestion,
    ExplainQuestion,
    ScoreQuestion,
    SuggestQuestion,
)
from nextquery.service.queue import cost
from nextquery.suggesters.asking import SuggestOptions

SHORT = ("red shoes", "paris")
LONG = tuple(" ".join(["word"] * 40) for _ in range(100))


def test_ordinary_questions_cost_one() -> None:
    assert cost(SuggestQuestion(SHORT)) == 1.0
    assert cost(SuggestQuestion(SHORT, SuggestOptions(10, diversity=0.9))) == 1.0
    assert cost(CompleteQuestion(SHORT, "pa")) == 1.0
    assert cost(ScoreQuestion(SHORT, ("paris hotels",) * 20)) == 1.0
    assert cost(ExplainQuestion(SHORT)) == 1.0


def test_more_work_costs_more() -> None:
    assert cost(SuggestQuestion(SHORT, SuggestOptions(50))) == 3.0
    assert cost(CompleteQuestion(SHORT, "pa", 30)) == 2.0
    # 100 candidates of 19 words and an end each: 2,000 words.
    assert cost(ScoreQuestion(SHORT, (" ".join(["w"] * 19),) * 100)) == 10.0


def test_text_that_takes_time_to_read_is_charged() -> None:
    assert cost(SuggestQuestion(("東京 ホテル", "京都 の 安い ホテル"))) == 1.0
    # 1,300 characters of two further bytes each.
    assert cost(SuggestQuestion(("中" * 650, "国" * 650))) == pytest.approx(1 + 2400 / 350)
    assert cost(ScoreQuestion((), ("中" * 500,) * 100)) == pytest.approx(1 + 99_800 / 350)
    assert cost(CompleteQuestion(SHORT, "a " * 64, 50)) == 3 + 3


def test_only_what_a_model_reads_of_a_session_is_charged() -> None:
    # 20 queries of 30 words: 600, of which 50 are free.
    assert cost(ExplainQuestion(LONG)) == pytest.approx(1 + 550 / 500)
    assert cost(ExplainQuestion(LONG[:20])) == cost(ExplainQuestion(LONG))


def test_the_largest_batch_pays_for_all_of_its_work() -> None:
    largest = [SuggestQuestion(LONG, SuggestOptions(50))] * 64
    assert sum(map(cost, largest)) == pytest.approx(64 * (3 + 550 / 500))
