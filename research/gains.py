"""The tables of docs/results/index.md: HRED over the Baseline Ranker, and the power of a test."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from scipy import stats

from nextquery.evaluation.comparison import users_needed
from nextquery.evaluation.paper import PAPER
from research.tables import RESULTS, TITLES, number_of_cases, p_value, read, signed, table

Document = Mapping[str, Any]
HELD_OUT = "held_out_users"
ROUNDED = date(2026, 11, 18)
"""Since then ranker features are rounded to a grid, which moves single MRRs by up to .01."""


@dataclass(frozen=True)
class Study:
    """One experiment of docs/results, and the rows that the page shows of it."""

    log: str
    visitors: str
    file: str
    part: str = "scenarios"
    """`scenarios`, `new_visitors`, or `held_out_users` of the scenarios."""
    model: str = "hred"
    variant: str = ""
    rounded: bool = True
    """False for a study of the first day of `ROUNDED` that was measured before."""

    def rows(self) -> Iterator[tuple[str, Document]]:
        """The scenarios that had enough cases, by name; none of a study that was not run yet."""
        if not (RESULTS / f"{self.file}.json").exists():
            return
        document = read(self.file)
        held_out = self.part == HELD_OUT
        for name, scenario in document["scenarios" if held_out else self.part].items():
            result = scenario.get(HELD_OUT) if held_out else scenario
            if result and "mrr" in result:
                yield name, result

    def measured(self) -> str:
        """The day and month of the measurement; a star if features were not rounded."""
        day = date.fromisoformat(read(self.file)["date"])
        star = "" if self.rounded and day >= ROUNDED else " *"
        return f"{day.day} {day:%b}{star}"


PAPER_PROTOCOL = (
    Study("AOL", "known", "aol_held_out_last"),
    Study("AOL", "held out", "aol_held_out_last", HELD_OUT),
    Study("AOL", "new (folds)", "aol", "new_visitors"),
    Study("synthetic, no copying", "known", "synthetic", model="first-1", rounded=False),
    Study("synthetic, copying", "known", "synthetic_copying"),
    Study("synthetic, copying", "new to counts", "synthetic_copying", "new_visitors"),
    Study("synthetic, shuffled", "known", "control", model="all-1"),
)
"""Rankers learn from the last query of each training session."""

EVERY_QUERY = "rankers learn from every next query"
EVERY_CONTEXT = "every test session is a case"
VARIANTS = (
    Study("AOL", "known", "aol_held_out_every", variant=EVERY_QUERY),
    Study("AOL", "held out", "aol_held_out_every", HELD_OUT, variant=EVERY_QUERY),
    Study("AOL", "known", "aol_plain", variant=f"{EVERY_QUERY}, HRED without copying"),
    Study("AOL", "new (folds)", "aol_every", "new_visitors", variant=EVERY_QUERY),
    Study("AOL", "known", "aol_contexts", variant=EVERY_CONTEXT),
    Study("AOL", "new (folds)", "aol_new_contexts", "new_visitors", variant=EVERY_CONTEXT),
)  # fmt: skip
HEADS = ("cases", "users", "gain", "95% interval of the difference", "p by user")


def paper_protocol() -> str:
    """HRED over the Baseline Ranker with rankers trained as in the paper."""
    rows = [
        [study.log, study.visitors, TITLES[name], *_cells(result, study.model), study.measured()]
        for study in PAPER_PROTOCOL
        for name, result in study.rows()
    ]
    heads = ["log", "visitors", "scenario", *HEADS, "paper's one feature", "measured"]
    return table(heads, _without_repeats(rows, 2))


def variants() -> str:
    """The same with other rankers or other cases."""
    rows = [
        [study.variant, study.visitors, TITLES[name], *_cells(result), study.measured()]
        for study in VARIANTS
        for name, result in study.rows()
    ]
    heads = ["AOL: variant", "visitors", "scenario", *HEADS, "paper's one feature", "measured"]
    return table(heads, _without_repeats(rows, 2))


def power() -> str:
    """How many users it takes to show a gain (p < .01 by user, power 80%): the paper's and ours."""
    heads = ["AOL, visitors", "scenario", "users", "gain and its standard error", "paper's gain"]
    heads += ["users to show the paper's", "users to show ours"]
    rows = []
    for study in PAPER_PROTOCOL:
        if study.log != "AOL":
            continue
        for name, result in study.rows():
            gain = result["gains"]["baseline+hred over baseline"]
            base, users = result["mrr"]["baseline"], result["users"]
            error = error_by_user(gain, users)
            wanted = PAPER[name].gain("baseline")
            cells = [study.visitors, TITLES[name], f"{users:,}"]
            cells += [f"{gain['relative']:+.1%} ± {error / base:.1%}", f"{wanted:+.1%}"]
            cells.append(_needed(study, users, error, wanted * base))
            positive = gain["difference"] > 0
            cells.append(_needed(study, users, error, gain["difference"]) if positive else "")
            rows.append(cells)
    return table(heads, rows)


def _needed(study: Study, users: int, error: float, difference: float) -> str:
    """Users with cases, and the size of a log of the same kind that has them."""
    needed = users_needed(users, error, difference)
    of_log = needed / users * (HELD_OUT_USERS if study.part == HELD_OUT else LOG_USERS)
    return f"{needed:,} (a log of {round(of_log, -2):,.0f})"


LOG_USERS = 1942
"""Users of the AOL logs used here."""
HELD_OUT_USERS = 194


def error_by_user(gain: Document, users: int) -> float:
    """The standard error of a difference of MRRs over users.

    From the bootstrap interval over users where there is one; older studies have only the p-value
    of the t-test by user, which determines it.

    >>> gain = {"difference": 0.0022, "p_by_user": 0.75}
    >>> round(error_by_user(gain, 144), 4)
    0.0069
    >>> error_by_user({"difference_low_by_user": -0.1, "difference_high_by_user": 0.292}, 144)
    0.1
    """
    if "difference_low_by_user" in gain:
        width = gain["difference_high_by_user"] - gain["difference_low_by_user"]
        return float(round(width / (2 * 1.96), 6))
    return float(abs(gain["difference"]) / stats.t.isf(gain["p_by_user"] / 2, users - 1))


def _cells(result: Document, model: str = "hred") -> list[str]:
    gain = result["gains"][f"baseline+{model} over baseline"]
    only = result["gains"][f"baseline+{model}:sum over baseline"]
    cells = [f"{number_of_cases(result):,}", f"{result['users']:,}", f"{gain['relative']:+.1%}"]
    cells += [interval_by_user(gain, result["users"]), _p(gain)]
    return [*cells, f"{only['relative']:+.1%} ({_p(only)})"]


def interval_by_user(gain: Document, users: int) -> str:
    """The 95% interval over users of a difference of MRRs."""
    if "difference_low_by_user" in gain:
        low, high = gain["difference_low_by_user"], gain["difference_high_by_user"]
    else:
        reach = stats.t.isf(0.025, users - 1) * error_by_user(gain, users)
        low, high = gain["difference"] - reach, gain["difference"] + reach
    return f"{signed(low)} to {signed(high)}"


def _p(gain: Document) -> str:
    return p_value(gain["p_by_user"]).removeprefix("= ")


def _without_repeats(rows: list[list[str]], columns: int) -> list[list[str]]:
    """The rows with the first cells empty where they repeat those above."""
    shown = []
    for row, above in zip(rows, [[], *rows], strict=False):
        same = row[:columns] == above[:columns]
        shown.append([*([""] * columns if same else row[:columns]), *row[columns:]])
    return shown
