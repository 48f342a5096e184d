from pathlib import Path

import pytest

from nextquery.logs.formats.delimited import ExciteFormat
from nextquery.logs.reading.open import Sample
from nextquery.logs.settings import ReadSettings

ROW = "A1\t970916105432\tred shoes"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((ROW,), True),
        ((ROW, ROW, "broken"), True),
        ((ROW, "broken"), False),
        (("A1\t19970916105432\tred",), False),
        ((ROW + "\tmore",), False),
    ],
)
def test_recognised_by_most_lines(lines: tuple[str, ...], expected: bool) -> None:
    found = ExciteFormat().recognise(Sample(Path("log"), lines), ReadSettings())
    assert (found is not None) == expected


def test_chosen_columns_speak_against_it() -> None:
    columns = {"user": "1", "time": "2", "query": "3"}
    sample = Sample(Path("log"), (ROW,))
    assert ExciteFormat().recognise(sample, ReadSettings(columns=columns)) is None
