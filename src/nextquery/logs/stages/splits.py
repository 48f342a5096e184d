"""Which sessions are background, training, validation, test, or of held-out users.

Knows times and pseudonyms, not what the sessions hold.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import narwhals as nw

from nextquery.errors import InputError
from nextquery.logs.data_folder import SPLITS, UNSEEN_USERS
from nextquery.logs.stages.privacy import USER_BITS

PAPER_DAYS = (61, 14, 8, 9)
"""The paper's log has 92 days: 61 before 1 May, two weeks of training, and "the remaining two
weeks", 15 to 31 May, halved at 23 May."""

_LEAST_DAYS, _MOST_DAYS = 0.01, 10_000

SPLIT_CODES = {name: code for code, name in enumerate((*SPLITS, UNSEEN_USERS))}


@dataclass(frozen=True)
class SplitRule:
    """Cut times, as naive UTC, and the share of users held out."""

    cuts: tuple[datetime, datetime, datetime]
    holdout_users: float = 0.0

    def split(self) -> nw.Expr:
        """The code of a session's split, by `time` and user (`held_out`) of its first row."""
        time = nw.col("time")
        *earlier, last = SPLITS
        code = nw.lit(SPLIT_CODES[last])
        for split, cut in reversed(list(zip(earlier, self.cuts, strict=True))):
            code = nw.when(time < _instant(cut)).then(nw.lit(SPLIT_CODES[split])).otherwise(code)
        unseen = nw.lit(SPLIT_CODES[UNSEEN_USERS])
        return nw.when("held_out").then(unseen).otherwise(code).cast(nw.Int8)

    def in_background(self) -> nw.Expr:
        """Whether a row, not its session, lies before the first cut and is of no held-out user."""
        return (nw.col("time") < _instant(self.cuts[0])) & ~nw.col("held_out")

    def held_out(self) -> nw.Expr:
        """Whether a user, told by the pseudonym, is held out."""
        return nw.col("user") < int(self.holdout_users * 2**USER_BITS)


def parse_cuts(text: str, zone: str) -> tuple[datetime, datetime, datetime]:
    """Read `T1,T2,T3`: ISO dates or times; without an offset they are local to `zone`."""
    parts = text.split(",")
    if len(parts) != len(SPLITS) - 1:
        raise InputError(f"`split_at` {text}: give three times, e.g. 2006-05-01,2006-05-15,...")
    first, second, third = (_naive_utc(part.strip(), zone) for part in parts)
    if not first < second < third:
        raise InputError(f"`split_at` {text}: the three times must go upwards")
    return first, second, third


def paper_cuts(first: datetime, last: datetime) -> tuple[datetime, datetime, datetime]:
    """Cut the time from the first to the last row in the paper's proportions, at full seconds."""
    span = last - first
    days, total = 0, sum(PAPER_DAYS)
    cuts = []
    for length in PAPER_DAYS[:-1]:
        days += length
        cuts.append(first + timedelta(seconds=span * days // total // timedelta(seconds=1)))
    return cuts[0], cuts[1], cuts[2]


def parse_days(text: str) -> tuple[float, float, float]:
    """Read `D1,D2,D3`: how many days training, validation and test are long.

    >>> parse_days("1,0.5,1")
    (1.0, 0.5, 1.0)
    """
    try:
        days = tuple(float(part) for part in text.split(","))
    except ValueError:
        days = ()
    if len(days) != len(SPLITS) - 1 or not all(_LEAST_DAYS <= each <= _MOST_DAYS for each in days):
        raise InputError(
            f"`split_days` {text}: give the days of training, validation and test, "
            f"each from {_LEAST_DAYS} to {_MOST_DAYS:,}, e.g. 1,1,1"
        )
    first, second, third = days
    return first, second, third


def last_days_cuts(
    last: datetime, days: tuple[float, float, float]
) -> tuple[datetime, datetime, datetime]:
    """Cut so many days before the last row, at full seconds: the cuts move on with the log.

    >>> [f"{cut:%d %Hh}" for cut in last_days_cuts(datetime(2026, 5, 9, 18), (2, 1, 0.5))]
    ['06 06h', '08 06h', '09 06h']
    """
    ends = [timedelta(seconds=round(86400 * sum(days[place:]))) for place in range(len(days))]
    first, second, third = (last.replace(microsecond=0) - end for end in ends)
    return first, second, third


def _instant(time: datetime) -> nw.Expr:
    # Spark reads a datetime literal in the process's own time zone; a parsed text has none.
    return nw.lit(f"{time:%Y-%m-%d %H:%M:%S}").str.to_datetime(format="%Y-%m-%d %H:%M:%S")


def _naive_utc(text: str, zone: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"`split_at` {text}: not an ISO date or time") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=ZoneInfo(zone))
    if time.microsecond:
        raise InputError(f"`split_at` {text}: give whole seconds")
    if not 1900 <= time.year <= 2200:
        raise InputError(f"`split_at` {text}: give a year from 1900 to 2200")
    return time.astimezone(UTC).replace(tzinfo=None)
