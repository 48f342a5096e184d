from collections.abc import Sequence

from nextquery.evaluation.lists import BEAM, CONTEXTS, decoding_time
from nextquery.inference.settings import DecodeConfig
from nextquery.records import Session, Suggestion


class Recorder:
    """Remembers what it was asked for."""

    config = DecodeConfig()

    def __init__(self) -> None:
        self.calls: list[tuple[Sequence[Sequence[str]], int, DecodeConfig | None]] = []

    def suggest(
        self, context: Sequence[str], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        raise NotImplementedError

    def complete(
        self, context: Sequence[str], prefix: str, n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[Suggestion]:
        raise NotImplementedError

    def suggest_many(
        self, contexts: Sequence[Sequence[str]], n: int = 5, *, config: DecodeConfig | None = None
    ) -> list[list[Suggestion]]:
        self.calls.append((contexts, n, config))
        return [[] for _ in contexts]


def test_one_context_at_a_time_with_the_papers_beam_and_the_first_not_counted() -> None:
    model = Recorder()
    sessions = [Session(number, "u", ("a", f"b{number}", "c")) for number in range(40)]
    found = decoding_time(model, sessions)

    assert (found.beam, found.contexts) == (BEAM, CONTEXTS)
    assert found.median_ms >= 0
    assert len(model.calls) == CONTEXTS + 1
    contexts, n, config = model.calls[0]
    assert contexts == [("a", "b0")]
    assert n == BEAM
    assert config is not None
    assert config.beam == BEAM
