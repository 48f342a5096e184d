"""The judgements of a study, on disk before they are confirmed.

One SQLite file holds the assessors with their tokens and every judgement ever made; an undo is a
judgement too, so nothing is ever overwritten.
"""

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import ArtifactError, InputError

USEFUL, SOMEWHAT, NOT_USEFUL = "useful", "somewhat useful", "not useful"
GRADES = {USEFUL: 2, SOMEWHAT: 1, NOT_USEFUL: 0}
FILE = "judgements.sqlite"
MOST_ASSESSORS = 10_000

_TABLES = """
CREATE TABLE IF NOT EXISTS assessors (
    number INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, browser TEXT);
CREATE TABLE IF NOT EXISTS judgements (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, assessor INTEGER NOT NULL, item INTEGER NOT NULL,
    value TEXT, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
"""
_CURRENT = """
SELECT assessor, item, value FROM judgements
WHERE sequence IN (SELECT MAX(sequence) FROM judgements GROUP BY assessor, item)
  AND value IS NOT NULL
"""


@dataclass(frozen=True)
class Judgement:
    """What an assessor thinks of an item now."""

    assessor: int
    item: int
    value: str


class JudgementStore:
    """The SQLite file of one study; every call is one transaction, safe across threads."""

    def __init__(self, study: Path) -> None:
        self.path = study / FILE
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_TABLES)

    def tokens(self, assessors: int) -> dict[int, str]:
        """The token of each assessor, numbered from 1; missing ones are made, none is changed."""
        if assessors < 1:
            raise InputError("`assessors`: at least 1")
        if assessors > MOST_ASSESSORS:
            raise InputError(f"`assessors` {assessors}: at most {MOST_ASSESSORS:,}")
        with self._connection() as connection:
            for number in range(1, assessors + 1):
                connection.execute(
                    "INSERT OR IGNORE INTO assessors (number, token) VALUES (?, ?)",
                    (number, secrets.token_urlsafe(24)),
                )
            rows = connection.execute("SELECT number, token FROM assessors ORDER BY number")
            return dict(rows.fetchall())

    def assessors(self) -> list[int]:
        """The numbers of all assessors that have a link."""
        with self._connection() as connection:
            rows = connection.execute("SELECT number FROM assessors ORDER BY number").fetchall()
        return [int(number) for (number,) in rows]

    def assessor(self, token: str) -> int | None:
        """The assessor of a token, or None for a wrong one."""
        with self._connection() as connection:
            row = connection.execute(
                "SELECT number FROM assessors WHERE token = ?", (token,)
            ).fetchone()
        return None if row is None else int(row[0])

    def admits(self, assessor: int, browser: str | None) -> bool:
        """Whether the link is open in this browser: nobody else has judged with it yet."""
        with self._connection() as connection:
            row = connection.execute(
                "SELECT browser FROM assessors WHERE number = ?", (assessor,)
            ).fetchone()
        return bool(row) and (
            row[0] is None or (browser is not None and row[0] == _digest(browser))
        )

    def claim(self, assessor: int, browser: str) -> bool:
        """Bind the assessor to the first browser that judges; False for any other browser."""
        digest = _digest(browser)
        with self._connection() as connection:
            connection.execute(
                "UPDATE assessors SET browser = ? WHERE number = ? AND browser IS NULL",
                (digest, assessor),
            )
            row = connection.execute(
                "SELECT browser FROM assessors WHERE number = ?", (assessor,)
            ).fetchone()
        return bool(row and row[0] == digest)

    def release(self, assessor: int) -> None:
        """Let the assessor's link be opened in another browser; the judgements stay."""
        if not 0 < assessor <= MOST_ASSESSORS:
            raise InputError(f"`release` {assessor}: the study has no such assessor")
        with self._connection() as connection:
            changed = connection.execute(
                "UPDATE assessors SET browser = NULL WHERE number = ?", (assessor,)
            )
            if not changed.rowcount:
                raise InputError(f"`release` {assessor}: the study has no such assessor")

    def judge(self, assessor: int, item: int, value: str | None) -> None:
        """Store a judgement, or with None take the current one back."""
        with self._connection() as connection:
            connection.execute(
                "INSERT INTO judgements (assessor, item, value) VALUES (?, ?, ?)",
                (assessor, item, value),
            )

    def current(self, assessor: int | None = None) -> list[Judgement]:
        """The judgements that stand, of one assessor or of all."""
        with self._connection() as connection:
            rows = connection.execute(_CURRENT + " ORDER BY sequence").fetchall()
        return [Judgement(*row) for row in rows if assessor in (None, row[0])]

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=30)
        try:
            # FULL: a commit returns only after the disk has it, also in WAL mode.
            connection.execute("PRAGMA synchronous=FULL")
            with connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise ArtifactError(
                f"{self.path}: the judgements cannot be read or written ({error}); look at the "
                "disk, or bring the file back from a copy"
            ) from error
        finally:
            connection.close()


def _digest(browser: str) -> str:
    return hashlib.sha256(browser.encode("utf-8", "surrogatepass")).hexdigest()
