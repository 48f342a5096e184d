from typing import Any

from nextquery.service.engine import ExplainQuestion, Question, ScoreQuestion, SuggestQuestion
from nextquery.suggesters.asking import SuggestOptions


def test_lists_made_in_the_same_way_are_made_together() -> None:
    one, other = SuggestQuestion(("a",)), SuggestQuestion(("b",))
    assert one.group == other.group == SuggestOptions()
    assert SuggestQuestion(("a",), SuggestOptions(3)).group != one.group


def test_other_questions_are_answered_one_by_one() -> None:
    one, other = ScoreQuestion(("a",), ("x",)), ScoreQuestion(("b",), ("x",))
    questions: list[Question[Any]] = [one, other, ExplainQuestion(())]
    assert len({question.group for question in questions}) == 3
