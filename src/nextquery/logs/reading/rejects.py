"""Rejected rows: the reason of each, their counts, and the file that lists them."""

import gzip
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import polars as pl

from nextquery.errors import LogError
from nextquery.logs.privacy import pseudonym

MALFORMED_TEXT = "malformed UTF-8"
NUL_BYTE = "NUL byte"
TOO_LONG = "line longer than 1 MiB"
EMPTY_LINE = "empty line"
REPEATED_HEADER = "repeated header"
OTHER_HEADER = "header with the columns in another order"
ABOVE_HEADER = "above the header"
WRONG_COLUMNS = "wrong number of columns"
BAD_QUOTES = "quotes not closed or not doubled"
NOT_JSON = "not a JSON object"
NOT_A_REQUEST = "not a request in the common log format"
NO_USER = "no user"
NO_TIME = "no time"
NO_ACTION = "no event.action"
EMPTY_QUERY = "empty query"
NOT_A_SEARCH = "not a search event"
NOT_A_CLICK = "not a click event"
NO_OBJECT = "click without object_id"
NO_QUERY_ID = "click without query_id"
UNKNOWN_QUERY = "click on a query that is not in the log"
TYPED_FURTHER = "typed further within 30 seconds"
FILTERED = "left out by `where`"
GIVEN_UP = "not read on: the file begins with bad rows"

# Well-formed rows without a query: excluded, and no sign that the log is read wrongly.
SET_ASIDE = frozenset(
    {
        *(ABOVE_HEADER, EMPTY_LINE, EMPTY_QUERY, NOT_A_SEARCH, NOT_A_CLICK),
        *(NO_QUERY_ID, UNKNOWN_QUERY, TYPED_FURTHER, FILTERED),
    }
)
_WITHOUT_END = SET_ASIDE - {EMPTY_LINE, ABOVE_HEADER}
"""What a good log may have millions of, such as a web server's requests for images."""
MOST_LISTED = 1_000_000
"""Rows that are listed per reason: a file of empty lines would give an endless list."""
MOST_BEFORE_THE_FIRST = 1_000_000
"""A file with more bad rows before its first usable one is refused: read wrongly, or hostile."""
_EXCERPT_CHARACTERS = 60
REJECTED = "rejected.ndjson.gz"
OWNERS = "rejected_owners.parquet"
_NO_OWNERS = pl.DataFrame(schema={"place": pl.Int64, "user": pl.String, "time": pl.Datetime("us")})


class RejectedRows:
    """The open list of rejected rows (`rejected.ndjson.gz`) and the count of each reason.

    Excerpts are raw text of the log, so only the owner of the file may read it. Counts are
    complete; the list ends, for each reason, after `MOST_LISTED` rows. Next to it, in the same
    order, `rejected_owners.parquet` has the place in the log, the user's pseudonym and the time
    of each listed row, as far as they are known, so that a person's rows can be found again.
    """

    def __init__(self, path: Path, excerpts: bool = True) -> None:
        self.counts: Counter[str] = Counter()
        self._owners_file = path.with_name(OWNERS)
        self._owners: list[pl.DataFrame] = []
        self._excerpts = excerpts
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        # No name and no time in the header: equal rows give equal bytes.
        self._stream = gzip.GzipFile("", "wb", compresslevel=6, fileobj=self._file, mtime=0)

    def add(self, rejected: pl.DataFrame) -> None:
        """Write rows with the columns file, line, place, reason, excerpt, user and time."""
        if rejected.is_empty():
            return
        listed = rejected
        if self.counts.total() + len(rejected) > MOST_LISTED:
            before = pl.col("reason").replace_strict(self.counts, default=0, return_dtype=pl.Int64)
            number = before + pl.int_range(pl.len()).over("reason")
            listed = rejected.filter(number < MOST_LISTED)
        for reason, count in rejected["reason"].value_counts().iter_rows():
            self.counts[reason] += count
        self.write(_with_pseudonyms(listed))

    def add_counted(self, listed: pl.DataFrame, counts: Mapping[str, int]) -> None:
        """Write rows of which there are more than these; `counts` has them all."""
        self.counts.update(counts)
        self.write(_with_pseudonyms(listed))

    def write(self, listed: pl.DataFrame) -> None:
        """Write rows of the same columns, with pseudonyms for users, without counting them."""
        columns = ("file", "line", "reason", *(["excerpt"] if self._excerpts else []))
        if len(listed):
            self._stream.write(listed.select(columns).write_ndjson().encode())
            self._owners.append(listed.select(_NO_OWNERS.columns).cast(_NO_OWNERS.schema))

    def most_common(self) -> dict[str, int]:
        """Reasons and their counts, most common first, equal counts by name."""
        return dict(sorted(self.counts.items(), key=lambda item: (-item[1], item[0])))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._file.close()
        if kind is None:
            owners = pl.concat([_NO_OWNERS, *self._owners], rechunk=True)
            file = self._owners_file
            owners.write_parquet(file, compression="zstd", compression_level=1, statistics=False)
            file.chmod(0o600)


def _with_pseudonyms(rejected: pl.DataFrame) -> pl.DataFrame:
    users = rejected["user"].drop_nulls().unique().to_list()
    names = {user: str(pseudonym(user)) for user in users}
    user = pl.col("user").replace_strict(names, default=None, return_dtype=pl.String)
    return rejected.with_columns(user)


def printable(path: Path) -> str:
    """A path as text: bytes of its name that are not UTF-8 are written as `\\xff`.

    >>> printable(Path("log.tsv"))
    'log.tsv'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def excerpt(text: pl.Expr) -> pl.Expr:
    """The first characters of a row; those that do not print, tabs excepted, are replaced."""
    start = text.str.slice(0, _EXCERPT_CHARACTERS)
    return start.str.replace_all(r"[\p{C}&&[^\t]]", "\ufffd").alias("excerpt")


class FileStart:
    """The first rows of a file, which is refused if a million are bad and none is usable.

    Without this a few kilobytes of gzip, such as 20 million times `{}`, take minutes to be refused.
    """

    def __init__(self, max_rejected: float) -> None:
        self._most = max_rejected
        self._accepted, self.bad = 0, Counter[str]()

    def add(self, accepted: int, reasons: pl.Series) -> bool:
        """Add rows; whether the file is hopeless, which it never is if all rows may be bad."""
        self._accepted += accepted
        if not self._accepted:
            counts = dict(reasons.value_counts().iter_rows())
            self.bad.update({why: n for why, n in counts.items() if why not in _WITHOUT_END})
        return not self._accepted and self._most < 1 and self.bad.total() > MOST_BEFORE_THE_FIRST


def hopeless(file: str, reasons: Mapping[str, int]) -> LogError:
    """The error for a file whose first rows are all bad."""
    bad = reasons.keys() - _WITHOUT_END
    most_often = max(bad, key=lambda reason: (reasons[reason], reason))
    return LogError(
        f"{file}: none of its first {MOST_BEFORE_THE_FIRST:,} rows are usable (most often: "
        f"{most_often}); check `format` and `columns`, or leave the file out (`max_rejected` 1 "
        "reads it to its end)"
    )


def refuse_other_header(file: str, line: int | None = None) -> LogError:
    """The error for a file in which a second header has its columns in another order."""
    where = file if line is None else f"{file}, line {line:,}"
    return LogError(
        f"{where}: a second header has the columns in another order; split the file there"
    )


_ADVICE = {MALFORMED_TEXT: "name its own `encoding`, such as utf-8 or cp1252"}
"""What to check first where most bad rows have this reason."""


def check_share(accepted: int, reasons: dict[str, int], most: float) -> None:
    """Stop when too large a share of the rows is bad; excluded rows do not count."""
    bad = {reason: count for reason, count in reasons.items() if reason not in SET_ASIDE}
    faulty = sum(bad.values())
    if accepted == 0 and not reasons:
        raise LogError("the log has no rows; give another file")
    if accepted == 0:
        advice = _ADVICE.get(next(iter(reasons)), "check `format` and `columns`")
        raise LogError(f"no row is usable ({_first_three(reasons)}); {advice}")
    share = faulty / (accepted + faulty)
    if share > most:
        advice = _ADVICE.get(next(iter(bad)), "check `format`")
        raise LogError(
            f"{faulty} of {accepted + faulty} rows are bad ({share:.1%}, at most {most:.1%} "
            f"allowed): {_first_three(bad)}; {advice}, or raise `max_rejected`"
        )


def _first_three(reasons: dict[str, int]) -> str:
    return "; ".join(f"{reason}: {count}" for reason, count in list(reasons.items())[:3])
