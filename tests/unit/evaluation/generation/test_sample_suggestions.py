from collections.abc import Sequence
from pathlib import Path

from nextquery.evaluation.paper import CONTEXTS, SUGGESTIONS, sample_suggestions
from nextquery.records import ScoredQuery, Session, Suggestion


class Echo:
    """Suggests the last query with a number behind it."""

    kind = "echo"

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        return [Suggestion(f"{context[-1]} {number}", 0.0, "") for number in range(n)]

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        raise NotImplementedError

    def save(self, path: Path) -> None:
        raise NotImplementedError


def test_two_contexts_of_each_length_with_every_systems_first_suggestions() -> None:
    sessions = [
        Session(number, "u", tuple(f"q{number}.{place}" for place in range(2 + number % 4)))
        for number in range(60)
    ]
    table = sample_suggestions({"echo": Echo()}, sessions, seed=0)

    assert len(table.contexts) == CONTEXTS
    assert [len(each.context) for each in table.contexts] == [1, 1, 2, 2, 3, 3]
    for each in table.contexts:
        session = next(s for s in sessions if s.queries == (*each.context, each.next_query))
        assert session.queries[-1] == each.next_query
        assert each.suggestions["echo"] == tuple(
            f"{each.context[-1]} {number}" for number in range(SUGGESTIONS)
        )
    assert table == sample_suggestions({"echo": Echo()}, sessions, seed=0)
