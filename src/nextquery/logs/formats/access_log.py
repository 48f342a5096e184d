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
from nextquery.logs.reading.rows import Layout
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
class AccessLayout(Layout):
    """The query is the value of one parameter of the address."""

    parameter: str
    encoding: str = UTF_8
    """What escapes such as `%E9` are in where they are not UTF-8."""

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
        query = value.str.replace_all("+", " ", literal=True)
        escaped = query.str.contains("%", literal=True).fill_null(False).arg_true()
        decoded = [_unquoted(text, self.encoding) for text in query.gather(escaped)]
        query = query.scatter(escaped, decoded) if decoded else query
        malformed = pl.when(query.is_null() & value.is_not_null())
        moment = pl.col("time").str.to_datetime(_TIME, time_unit="us", strict=False)
        iso = moment.dt.strftime("%Y-%m-%dT%H:%M:%S") + pl.col("offset")
        has_nul = query.str.contains("\0", literal=True).fill_null(False)
        nul = pl.when(has_nul).then(pl.lit(rejects.NUL_BYTE))
        return parts.select(
            *lines.columns[:-1],
            pl.coalesce("reason", fault, malformed.then(pl.lit(rejects.MALFORMED_TEXT)), nul),
            user=pl.concat_str("host", "agent", separator=" ", ignore_nulls=True),
            time_text=pl.coalesce(iso, "time"),  # another text stays as it is
            query=query,
            click=pl.lit(None, pl.String),
        )


def _unquoted(text: str, encoding: str) -> str | None:
    """A value as it was typed; None where its bytes are in no known encoding."""
    try:
        return decode_bytes(unquote_to_bytes(text), encoding)
    except UnicodeDecodeError:
        return None
