"""The text-quality gate on a small log whose counts are known."""

from pathlib import Path

import numpy as np
import pytest

from nextquery.artifacts import publish
from nextquery.guard.guard import Guard
from nextquery.guard.quality import FEWEST_OCCURRENCES, Flaw
from nextquery.guard.tables import open_tables, write_tables

from .conftest import DataMaker

CITIES = ("oslo", "paris", "rome", "lima", "cairo", "delhi", "berlin")
QUERIES = [
    *(f"hotels in {city}" for city in CITIES),
    *(f"real estate {city}" for city in CITIES),
    *(f"{city} museum" for city in CITIES),
    "cheap flights",
]
LOG = [(f"user{number}", QUERIES) for number in range(4)]
ALONE = ("diarist", ["flights delhi", "wine of rome", "wine of rome", "wine of rome"])


@pytest.fixture
def guard(make_data: DataMaker, tmp_path: Path) -> Guard:
    with publish(tmp_path / "model", "adjacency", {}) as partial:
        write_tables(make_data([*LOG, ALONE], 3), partial)
    return Guard.open(tmp_path / "model")


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("hotels in oslo", None),
        ("oslo museum rome", Flaw.DISFLUENT),  # nobody typed "museum rome"
        ("hotels in oslo museum", None),  # every pair was typed
        ("hotels in", Flaw.DANGLING),
        ("oslo museum real", Flaw.DANGLING),  # `real` never ends a query
        ("estate oslo", Flaw.DANGLING),  # and `estate` never begins one
        ("hotels in oslo hotel", Flaw.REPEATED_WORD),
        ("oslo", None),
    ],
)
def test_texts_that_nobody_types_are_refused(guard: Guard, text: str, flaw: Flaw | None) -> None:
    assert guard.flaw(text) is flaw


def test_one_word_of_the_session_is_a_fragment_unless_k_users_typed_it(
    make_data: DataMaker, tmp_path: Path
) -> None:
    known = [(user, [*queries, "lima"]) for user, queries in LOG]
    with publish(tmp_path / "model", "adjacency", {}) as partial:
        write_tables(make_data(known, 3), partial)
    guard = Guard.open(tmp_path / "model")
    session_text = guard.own_text(["oslo museum", "lima museum"])
    assert guard.flaw("oslo", session_text) is Flaw.FRAGMENT
    assert guard.flaw("rome", session_text) is None
    assert guard.flaw("lima", session_text) is None


def test_the_order_of_the_visitors_own_words_is_not_judged(guard: Guard) -> None:
    text = "oslo museum rome"
    assert guard.flaw(text) is Flaw.DISFLUENT
    assert guard.flaw(text, guard.own_text(["the museum rome"])) is None


def test_a_user_counts_once_per_query(guard: Guard) -> None:
    typed = guard.tables.typed_text
    assert typed is not None
    number = typed.words["rome"]
    # four users typed three queries with it, the diarist one more, three times
    assert typed.counts[3 * number : 3 * number + 3].tolist() == [13, 4, 9]
    assert typed.counts[3 * typed.words["hotels"]] == 28 > FEWEST_OCCURRENCES


def test_fluency_by_hand(guard: Guard) -> None:
    typed = guard.tables.typed_text
    assert typed is not None
    symbols = typed.counts[::3].sum() + 1
    expected = np.log((4 + 5 * (13 + 1) / symbols) / (28 + 5))
    none = np.empty(0, dtype=np.uint64)
    assert typed.fluency(["in", "rome"], none) == pytest.approx(expected)
    assert typed.fluency(["in"], none) == 0.0


def test_a_misspelt_word_is_refused(make_data: DataMaker, tmp_path: Path) -> None:
    many = [(f"user{n}", [f"amsterdam hotels {word}" for word in CITIES] * 20) for n in range(6)]
    wrong = [(f"user{n}", ["amsterdma hotels"]) for n in range(3)]
    with publish(tmp_path / "model", "adjacency", {}) as partial:
        write_tables(make_data([*many, *wrong], 3), partial)
    guard = Guard.open(tmp_path / "model")
    assert guard.flaw("amsterdma hotels oslo") is Flaw.MISSPELT
    assert guard.flaw("amsterdam hotels oslo") is None
    assert guard.flaw("amsterdma hotels") is None  # K users typed it


def test_nothing_is_judged_without_tables_or_enforcement(guard: Guard, tmp_path: Path) -> None:
    assert Guard().flaw("hotels in") is None
    tables = open_tables(tmp_path / "model")
    free = Guard(tables, enforced=False)
    assert free.flaw("hotels in") is None
    assert guard.judges_text
    assert not free.judges_text
