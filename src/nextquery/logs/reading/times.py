"""Parsing of times: the spellings found in logs, converted to naive UTC."""

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from nextquery.errors import LogError

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


NOT_UNDERSTOOD = "time not understood"
OUT_OF_RANGE = "time before 1990 or after 2099"
SKIPPED = "time skipped by a clock change"
AMBIGUOUS = "date with slashes, day or month first"

USUAL = "%Y-%m-%d %H:%M:%S"
_ISO = (
    r"^(?<date>\d{4}-\d{2}-\d{2})[Tt ](?<minute>\d{2}:\d{2})(?<second>:\d{2})?"
    r"(?<fraction>[.,]\d{1,9})?\s?(?<half>[AaPp]\.?[Mm]\.?)?\s?"
    r"(?<offset>[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?$"
)
_DATETIME = pl.Datetime("us")
# Times outside are a wrong unit or a broken clock, not the time of a search.
_EARLIEST, _LATEST = datetime(1990, 1, 1), datetime(2100, 1, 1)


def check_time_zone(name: str) -> None:
    """Refuse a zone that is missing in one of the two time zone databases in use."""
    try:
        ZoneInfo(name)
        # Polars has a database of its own, which lacks `localtime`, `posix/...` and a few others.
        pl.Series([_EARLIEST]).dt.replace_time_zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, pl.exceptions.PolarsError):
        raise LogError(
            f"time zone {name!r} is unknown; use a name such as UTC or Europe/Paris"
        ) from None


def parse_times(texts: pl.Series, time_zone: str, pattern: str = USUAL) -> pl.DataFrame:
    """Columns `time` (naive UTC, or null) and `fault` (why it is null), one row per text.

    With the usual pattern, texts that do not have it are tried in all the ways named above; with
    another one (a format's own) only that pattern counts.
    """
    # Times hardly repeat: looking each up in a cache would double the work.
    wall = texts.str.to_datetime(pattern, time_unit="us", strict=False, cache=False)
    utc = pl.repeat(None, len(texts), dtype=_DATETIME, eager=True)
    if pattern == USUAL and wall.null_count() > texts.null_count():
        odd = (wall.is_null() & texts.is_not_null()).arg_true()
        spelt = _other_spellings(texts.gather(odd))
        wall, utc = wall.scatter(odd, spelt["wall"]), utc.scatter(odd, spelt["utc"])
    times = resolve_times(wall, utc, time_zone)
    if pattern != USUAL or not (times["fault"] == NOT_UNDERSTOOD).any():
        return times
    unsure = pl.Series(texts).str.contains(EITHER_FIRST)
    fault = pl.when(unsure & (pl.col("fault") == NOT_UNDERSTOOD)).then(pl.lit(AMBIGUOUS))
    return times.with_columns(fault=pl.coalesce(fault, "fault"))


def resolve_times(wall: pl.Series, utc: pl.Series, time_zone: str) -> pl.DataFrame:
    """Join times of the wall clock and absolute ones, and say what is wrong."""
    frame = pl.DataFrame({"wall": wall, "utc": utc})
    local = pl.col("wall")
    if time_zone != "UTC":
        zoned = local.dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
        local = zoned.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    joined = frame.select("wall", time=pl.coalesce("utc", local))
    in_range = joined["time"].is_between(_EARLIEST, _LATEST, closed="left").fill_null(False)
    if in_range.all():
        return joined.select("time", fault=pl.lit(None, pl.String))
    fault = (
        pl.when(in_range)
        .then(None)
        .when(pl.col("time").is_not_null())
        .then(pl.lit(OUT_OF_RANGE))
        .when(pl.col("wall").is_not_null())
        .then(pl.lit(SKIPPED))
        .otherwise(pl.lit(NOT_UNDERSTOOD))
    )
    return joined.select(time=pl.when(in_range).then("time"), fault=fault)


def _other_spellings(texts: pl.Series) -> pl.DataFrame:
    """Columns `wall` and `utc`, one of them filled where the text is understood."""
    times = _iso_or_number(texts.str.strip_chars())
    left = (times["wall"].is_null() & times["utc"].is_null() & texts.is_not_null()).arg_true()
    if not len(left):
        return times
    again = _iso_or_number(as_iso(texts.gather(left).str.strip_chars()))
    wall, utc = (times[name].scatter(left, again[name]) for name in ("wall", "utc"))
    return pl.DataFrame({"wall": wall, "utc": utc})


def _iso_or_number(texts: pl.Series) -> pl.DataFrame:
    """The same for ISO variants and numbers since 1970."""
    text = texts.alias("text")
    parts = pl.DataFrame([text, text.str.extract_groups(_ISO).alias("iso")]).unnest("iso")
    return parts.with_columns(iso=_iso_wall(), shift=_shift()).select(
        wall=pl.when(pl.col("offset").is_null()).then("iso"),
        utc=pl.coalesce(pl.col("iso") - pl.col("shift"), _since_1970(pl.col("text"))),
    )


def _iso_wall() -> pl.Expr:
    second = pl.col("second").fill_null(":00")
    joined = pl.concat_str("date", pl.lit(" "), "minute", second)
    digits = pl.col("fraction").str.slice(1, 6).str.pad_end(6, "0")
    microseconds = digits.cast(pl.Int64).fill_null(0)
    whole = joined.str.to_datetime(USUAL, time_unit="us", strict=False)
    return whole + pl.duration(microseconds=microseconds, hours=_half_day())


def _half_day() -> pl.Expr:
    """What `am` and `pm` add to the hour: 12 am is midnight."""
    morning, noon = pl.col("minute") < "12", pl.col("minute").str.starts_with("12")
    after = pl.col("half").str.to_lowercase().str.starts_with("p")
    added = pl.when(after & morning).then(12).when(~after & noon).then(-12).otherwise(0)
    return pl.when(pl.col("half").is_null()).then(0).otherwise(added)


def _shift() -> pl.Expr:
    """The offset from UTC as a duration; null where the time has none."""
    digits = pl.col("offset").str.replace(":", "", literal=True)
    numeric = pl.col("offset").str.contains(r"^[+-]")
    hours = digits.str.slice(1, 2).cast(pl.Int64, strict=False)
    minutes = digits.str.slice(3, 2).cast(pl.Int64, strict=False).fill_null(0)
    sign = pl.when(digits.str.starts_with("-")).then(-1).otherwise(1)
    shift = pl.when(numeric).then(sign * (hours * 60 + minutes)).otherwise(0)
    return pl.when(pl.col("offset").is_not_null()).then(pl.duration(minutes=shift))


def _since_1970(text: pl.Expr) -> pl.Expr:
    seconds = text.str.contains(r"^\d{1,11}(\.\d+)?$")
    milliseconds = text.str.contains(r"^\d{12,13}(\.\d+)?$")
    microseconds = text.str.contains(r"^\d{15,16}$")
    nanoseconds = text.str.contains(r"^\d{18,19}$")
    value = text.cast(pl.Float64, strict=False)
    scale = (
        pl.when(seconds).then(1e6).when(milliseconds).then(1e3)
        .when(microseconds).then(1.0).when(nanoseconds).then(1e-3)
    )  # fmt: skip
    return (value * scale).round().cast(pl.Int64).cast(_DATETIME)
