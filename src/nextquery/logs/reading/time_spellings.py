"""Times as tables, servers and mail headers write them, put into the words of ISO 8601.

| written | read |
|---|---|
| `20240301101500`, `20240301T101500Z` | digits alone |
| `2024/3/1 9:05`, `2024.03.01 09:05` | year first |
| `01.03.2024 10:15:00` | with dots the day is first |
| `01/Mar/2024:10:15:00 +0100`, `Fri, 01 Mar 2024 10:15:00 GMT`, `Mar 1, 2024, 10:15 AM` | names |
| `3/1/2024 10:15:00 AM` | with slashes and AM or PM the month is first |

`3/1/2024 10:15` may be either, and no rule of ours decides: it is not understood.
"""

import polars as pl

EITHER_FIRST = r"^\s*\d{1,2}/\d{1,2}/\d{2,4}(?:[ ,T]|$)"
"""A date that two countries read differently."""

_CLOCK = r"(\d{1,2}):(\d{2}.*)$"
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTH = r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
# A zero too many is taken away again below.
_SPELLINGS = (
    (r"^(\d{4})(\d{2})(\d{2})[Tt]?(\d{2})(\d{2})(\d{2}.*)$", "$1-$2-$3 $4:$5:$6"),
    (rf"^(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}})[Tt ]+{_CLOCK}", "$1-0$2-0$3 0$4:$5"),
    (rf"^(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}})[Tt, ]+{_CLOCK}", "$3-0$2-0$1 0$4:$5"),
    (
        rf"(?i)^(?:[a-z]{{3,9}},? )?(\d{{1,2}})[ /-]{_MONTH}[ /-](\d{{4}})[:, ]+{_CLOCK}",
        "$3-$2-0$1 0$4:$5",
    ),
    (rf"(?i)^{_MONTH} (\d{{1,2}}),? (\d{{4}}),? {_CLOCK}", "$3-$1-0$2 0$4:$5"),
    (
        r"^(\d{1,2})/(\d{1,2})/(\d{4}),?\s+(\d{1,2}):(\d{2}(?::\d{2})?\s?[AaPp]\.?[Mm]\.?)$",
        "$3-0$1-0$2 0$4:$5",
    ),
)


def as_iso(texts: pl.Series) -> pl.Series:
    """The times that have one of these forms as `2024-03-01 10:15:00`; others as they are.

    >>> as_iso(pl.Series(["1.3.2024 9:05", "01/Mar/2024:10:15:00 +0100", "soon"])).to_list()
    ['2024-03-01 09:05', '2024-03-01 10:15:00 +0100', 'soon']
    """
    text = pl.col("text")
    spelt = pl.any_horizontal([text.str.contains(pattern) for pattern, _ in _SPELLINGS])
    written = text
    for pattern, iso in _SPELLINGS:
        written = written.str.replace(pattern, iso)
    for number, name in enumerate(_MONTHS, 1):
        written = written.str.replace(rf"(?i)-{name}-", f"-{number:02}-")
    written = written.str.replace_all(r"([- ])0(\d{2})", "${1}${2}")
    frame = texts.alias("text").to_frame()
    return frame.select(pl.when(spelt).then(written).otherwise(text)).to_series()
