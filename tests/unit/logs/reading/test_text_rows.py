import pytest

from nextquery.logs.reading import rejects
from nextquery.logs.reading.lines import LONGEST_LINE
from nextquery.logs.reading.rows import rows_frame


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("été", None),
        ("half \ud800", rejects.MALFORMED_TEXT),
        ("nul \0", rejects.NUL_BYTE),
        ("é" * LONGEST_LINE, rejects.TOO_LONG),
        ("x" * (LONGEST_LINE + 1), rejects.TOO_LONG),
    ],
)
def test_texts_that_are_none_have_a_reason(query: str, reason: str | None) -> None:
    frame = rows_frame([{"query": "red"}, {"query": query, "text": query}], ("query",), 7)
    assert frame["line"].to_list() == [7, 8]
    assert frame["reason"].to_list() == [None, reason]
    assert frame["query"].to_list() == ["red", query if reason is None else None]
