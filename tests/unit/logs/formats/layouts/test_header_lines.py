"""Where a header probably stands, below what an exporter wrote above it."""

import pytest

from nextquery.logs.formats.delimited import HeaderLine, likely_header

ROWS = ("7,red shoes,2024-03-01 10:00:00", "7,blue shoes,2024-03-01 10:01:00")


@pytest.mark.parametrize(
    ("above", "index"),
    [
        ((), 0),
        (("# Site search", "# From 1 March", ""), 3),
        (("Report, made on Monday", "All times local"), 2),
        (("",) * 29, 29),
    ],
)
def test_the_header_is_found_below_a_preamble(above: tuple[str, ...], index: int) -> None:
    found = likely_header((*above, "who,what,when", *ROWS))
    assert found == HeaderLine(index, ("who", "what", "when"))


@pytest.mark.parametrize("separator", ["\t", ",", ";", "|"])
def test_every_separator_is_known(separator: str) -> None:
    lines = [line.replace(",", separator) for line in ("title", "who,what,when", *ROWS)]
    assert likely_header(lines) == HeaderLine(1, ("who", "what", "when"))


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("red shoes",),
        ("who,what,when",),
        ROWS,
        ("who,who,when", *ROWS),
        ("one,two", "1,2"),
        ("red,green,blue", "apple,pear,plum"),
        (*("",) * 30, "who,what,when", *ROWS),
        ('"who,what,when', *ROWS),
    ],
)
def test_what_has_no_rows_of_its_width_is_no_header(lines: tuple[str, ...]) -> None:
    assert likely_header(lines) is None


def test_quoted_names_are_read() -> None:
    lines = ('"Visitor ID","Term, as typed","When"', '"7","red, blue","2024-03-01"')
    assert likely_header(lines) is None  # a comma is not part of a name
    plain = ('"Visitor ID","Term","When"', '"7","red, blue","2024-03-01"')
    assert likely_header(plain) == HeaderLine(0, ("Visitor ID", "Term", "When"))
