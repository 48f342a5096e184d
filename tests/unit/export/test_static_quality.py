from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.export.engines import ExportedQuery, NextQuery
from nextquery.export.export import export_model
from nextquery.export.static import measure_static, write_static
from nextquery.records import Session, Suggestion
from nextquery.suggesters.base import Suggester

LISTS = {("a",): ["b", "c"], ("a", "b"): ["c", "d"], ("q",): ["b"]}


class TwoSessions:
    """A data folder's test split."""

    path = Path("data")

    def sessions(self, split: str) -> list[Session]:
        assert split == "test"
        return [Session(1, "x", ("a", "b", "c")), Session(2, "y", ("q", "b"))]


class Given:
    """A model whose lists are known."""

    kind = "given"

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        return [Suggestion(text, 0.0, "") for text in LISTS[tuple(context)]]


def exported(text: str, *following: str) -> ExportedQuery:
    return ExportedQuery(text, 1, tuple(NextQuery(each, 0.0) for each in following))


def test_it_counts_by_hand(tmp_path: Path) -> None:
    """Contexts: a (next b), a b (next c), q (next b); the files know a and b only."""
    data: Any = TwoSessions()
    write_static([exported("a", "b", "e"), exported("b", "d", "a")], tmp_path)
    model: Any = Given()
    found = measure_static(tmp_path, model, data)
    assert (found.sessions, found.contexts) == (2, 3)
    assert found.answered == pytest.approx(2 / 3, abs=1e-4)
    assert found.model_answered == 1.0
    assert found.first_agrees == 0.5, "b = b after a; d is not c after a b"
    assert found.overlap == 0.5, "b of b, c; d of c, d, since a is in the session"
    assert found.hits == pytest.approx(1 / 3, abs=1e-4)
    assert found.model_hits == 1.0
    assert found.visit_bytes_95 <= max(found.visit_bytes * 2, 200)


def test_only_static_lists_are_measured(model: Suggester, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`measure` is for static lists, not for json"):
        export_model(model, "json", tmp_path / "out", measure=tmp_path)
