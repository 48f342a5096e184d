"""What a question costs a model, known before it is queued: 1 is an ordinary list.

In units of a list of ten after a short session. Measured with a `small` model on one core
(docs/service.md has the table); the numbers are rounded up where the model may do more work than
it did there. Knows nothing of rates.
"""

from collections.abc import Sequence
from typing import Any

from nextquery.model.settings import TrainConfig
from nextquery.service.models.questions import (
    CompleteQuestion,
    Question,
    ScoreQuestion,
    SuggestQuestion,
    WhyQuestion,
)
from nextquery.suggesters.diagnosis import LISTED

LIST_LENGTH = 10
"""Suggestions of an ordinary list: the beam is as wide in any case."""
SUGGESTIONS_PER_UNIT = 20
"""So many suggestions more cost as much as an ordinary list."""
FREE_WORDS = 50
"""Words of an ordinary session."""
WORDS_PER_UNIT = 500
"""So many words more to read cost as much as an ordinary list."""
CANDIDATE_WORDS_PER_UNIT = 200
"""So many words of candidates to score cost as much as an ordinary list."""
_READ = TrainConfig()
"""A model reads no more of a session than it was trained on, by default this much."""


def cost(question: Question[Any]) -> float:
    """At least 1.

    >>> cost(SuggestQuestion(("paris", "paris hotels")))
    1.0
    """
    reading = max(0, _read(question.context) - FREE_WORDS) / WORDS_PER_UNIT
    return max(1.0, _answering(question)) + reading


def _answering(question: Question[Any]) -> float:
    match question:
        case SuggestQuestion(options=options):
            return _list_of(options.n)
        case CompleteQuestion(n=n):
            return _list_of(n)
        case WhyQuestion():
            return _list_of(LISTED)
        case ScoreQuestion(candidates=candidates):
            return sum(map(_words, candidates)) / CANDIDATE_WORDS_PER_UNIT
    return 0.0


def _list_of(n: int) -> float:
    return 1.0 + max(0, n - LIST_LENGTH) / SUGGESTIONS_PER_UNIT


def _read(context: Sequence[str]) -> int:
    most = _READ.max_words
    return sum(min(most, _words(query)) for query in context[-_READ.max_queries :])


def _words(text: str) -> int:
    return len(text.split()) + 1
