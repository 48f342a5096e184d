"""Access logs of Apache and nginx: a search is a request with a query parameter.

    192.0.2.9 - - [01/Mar/2006:07:17:12 +0100] "GET /s?q=red+shoes HTTP/1.1" 200 512 "-" "Mozilla"

A user is a host together with its user agent, where the line has one, since many people share an
address. Requests without the parameter, and those that failed, are excluded.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import polars as pl

from nextquery.logs.formats.base import LineFormat
from nextquery.logs.reading import rejects
from nextquery.logs.reading.encodings import UTF_8, decode_bytes
from nextquery.logs.reading.open import Sample
from nextquery.logs.reading.rows import HeaderlessLayout
from nextquery.logs.reading.times import USUAL
from nextquery.logs.settings import ReadSettings

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LINE = (
    r"^(?<host>\S+) \S+ .*?\[(?<time>[^ \]]+) (?<offset>[+-]\d{4})\] "
    r'"[A-Z]+ (?<target>\S+)[^"]*" (?<status>\d{3}) \S+'
    rf'(?: {_QUOTED} "(?<agent>(?:[^"\\]|\\.)*)")?'
)
_PATTERN = re.compile(_LINE.replace("(?<", "(?P<"))
_TIME = "%d/%b/%Y:%H:%M:%S"


class AccessFormat(LineFormat):
    """One request per line, in the common or the combined log format."""

    name = "access"
    takes_parameter = True

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Lines of the common log format."""
        matching = sum(_PATTERN.match(line) is not None for line in sample.lines)
        if settings.columns is None and matching * 2 > len(sample.lines):
            return "most of its first lines are requests in the common log format"
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> "AccessLayout":
        """Looks for the parameter of the settings, or for `q`."""
        return AccessLayout(settings.parameter or "q", settings.encoding)


@dataclass(frozen=True)
class AccessLayout(HeaderlessLayout):
    """The query is the value of one parameter of the address."""

    parameter: str
    encoding: str = UTF_8
    """What escapes such as `%E9` are in where they are not UTF-8."""
    time_pattern: str = USUAL

    def fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add user, time_text, query and click to rows of `text`, and reasons to `reason`."""
        parts = lines.with_columns(pl.col("text").str.extract_groups(_LINE).alias("parts"))
        parts = parts.unnest("parts")
        value = parts["target"].str.extract(rf"[?&;]{re.escape(self.parameter)}=([^&;#]*)")
        answered = pl.col("status").str.contains("^[23]")
        fault = (
            pl.when(pl.col("host").is_null())
            .then(pl.lit(rejects.NOT_A_REQUEST))
            .when(value.is_null() | ~answered)
            .then(pl.lit(rejects.NOT_A_SEARCH))
        )
        query = _decoded(value, self.encoding)
        malformed = pl.when(query.is_null() & value.is_not_null())
        has_nul = query.str.contains("\0", literal=True).fill_null(False)
        nul = pl.when(has_nul).then(pl.lit(rejects.NUL_BYTE))
        return parts.select(
            *lines.columns[:-1],
            pl.coalesce("reason", fault, malformed.then(pl.lit(rejects.MALFORMED_TEXT)), nul),
            user=pl.concat_str("host", "agent", separator=" ", ignore_nulls=True),
            time_text=_iso_time(),
            query=query,
            click=pl.lit(None, pl.String),
        )


def _iso_time() -> pl.Expr:
    """`01/Mar/2006:07:17:12` and `+0100` as ISO 8601; other text stays as it is."""
    moment = pl.col("time").str.to_datetime(_TIME, time_unit="us", strict=False)
    iso = moment.dt.strftime("%Y-%m-%dT%H:%M:%S") + pl.col("offset")
    return pl.coalesce(iso, "time")


def _decoded(values: pl.Series, encoding: str) -> pl.Series:
    """Values of a parameter as they were typed; null where their bytes are in no known encoding."""
    spaced = values.str.replace_all("+", " ", literal=True)
    escaped = spaced.str.contains("%", literal=True).fill_null(False).arg_true()
    if escaped.is_empty():
        return spaced
    return spaced.scatter(escaped, [_unquoted(text, encoding) for text in spaced.gather(escaped)])


def _unquoted(text: str, encoding: str) -> str | None:
    try:
        return decode_bytes(unquote_to_bytes(text), encoding)
    except UnicodeDecodeError:
        return None
