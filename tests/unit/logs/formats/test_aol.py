from pathlib import Path

import pytest

from nextquery.logs.formats.delimited import HEADER, AolFormat
from nextquery.logs.reading.open import Sample
from nextquery.logs.settings import ReadSettings

ROW = "7\tred\t2006-03-01 07:17:12"


def sample(*lines: str) -> Sample:
    return Sample(Path("log"), lines)


def test_header_is_known_in_any_case() -> None:
    assert AolFormat().layout(sample(HEADER.upper()), ReadSettings()).header == HEADER.upper()
    assert AolFormat().layout(sample(ROW), ReadSettings()).header == HEADER


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((HEADER.lower(),), "its first line is the header anonid, query, querytime"),
        ((ROW, ROW + "\t1\thttp://a.example"), "most of its first lines are user, query and time"),
        (("broken", ROW, ROW), "most of its first lines are user, query and time"),
        (("broken", ROW), None),
        (("7\tred\t2006",), None),
    ],
)
def test_recognised_by_header_or_most_lines(lines: tuple[str, ...], reason: str | None) -> None:
    found = AolFormat().recognise(sample(*lines), ReadSettings())
    assert (found is None) if reason is None else (found or "").startswith(reason)


def test_chosen_columns_speak_against_it() -> None:
    columns = {"user": "1", "time": "3", "query": "2"}
    assert AolFormat().recognise(sample(HEADER), ReadSettings(columns=columns)) is None
