"""Cleaning of texts, likely bots, spelling."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import narwhals as nw
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.logs.cleaning import (
    Correction,
    Events,
    ExcludedCounts,
    RobotRule,
    RowCounts,
    SpellingReport,
    Texts,
    clean_texts,
    correct_spelling,
    correct_texts,
    leave_out_robots,
    normalise_texts,
    read_events,
)
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.spelling import Counted, Speller, inflected, learn_spelling
from nextquery.normalise import normalise_query

from .conftest import scan_rows

TEXTS = st.lists(st.one_of(st.text(), st.text(alphabet=st.characters(codec="ascii"))))


@given(TEXTS)
def test_the_vector_rule_is_the_one_rule(texts: list[str]) -> None:
    series = pl.Series("query", texts, dtype=pl.String)
    assert normalise_texts(series).to_list() == [normalise_query(text) for text in texts]


def _drops(rules: PrepareSettings, *queries: str) -> list[str | None]:
    batch = pl.DataFrame({"raw_id": range(len(queries)), "query": queries})
    return clean_texts(batch, rules)["drop"].to_list()


def test_each_query_is_dropped_for_its_reason() -> None:
    queries = ("!?", "call 555-123-4567", "www.example.com", "red shoes")
    assert _drops(PrepareSettings(), *queries) == ["empty", "personal", None, None]
    assert _drops(PrepareSettings(drop_urls=True), *queries) == ["empty", "personal", "url", None]
    assert _drops(PrepareSettings(keep_personal_data=True), *queries) == ["empty", None, None, None]


@pytest.mark.parametrize(
    ("query", "dropped"),
    [
        ("http://example.com/a", True),
        ("www example com", True),
        ("example.co.uk", True),
        ("Example.COM", True),
        ("example com", True),
        ("dot com bubble", False),
        ("st. louis", False),
        ("asp.net", True),
        ("communication", False),
    ],
)
def test_addresses(query: str, dropped: bool) -> None:
    (drop,) = _drops(PrepareSettings(drop_urls=True), query)
    assert (drop == "url") == dropped


def _read(engine: Engine, folder: Path, typed: list[tuple[str, str]]) -> tuple[Events, RowCounts]:
    rows = pl.DataFrame(typed, ["user", "query"], orient="row").with_columns(
        time=pl.lit(datetime(2006, 3, 1)),
        click=pl.lit(None, pl.String),
        row=pl.int_range(pl.len(), dtype=pl.Int64),
    )
    scan_rows(engine, folder, rows)
    return read_events(engine, folder, nw.lit(False), PrepareSettings(), None)


def _queries(engine: Engine, events: Events) -> list[str]:
    joined = engine.lookup(events.rows.select("row", "query_id"), events.texts.queries, "query_id")
    table = joined.sort("row").collect("polars")
    return [str(text) for text in table["query"].to_list()]


def test_queries_are_normalised_and_what_is_dropped_is_counted(
    engine: Engine, tmp_path: Path
) -> None:
    typed = [("a", "Red  Shoes"), ("b", "red shoes"), ("a", "???"), ("c", "me@example.com")]
    events, counts = _read(engine, tmp_path / "rows", typed)
    assert _queries(engine, events) == ["red shoes", "red shoes"]
    assert counts == RowCounts(3, {"empty": 1, "personal": 1, "url": 0})


@pytest.mark.parametrize(
    ("users", "named"), [("abc", (Correction("restuarant", "restaurant", 3),)), ("a", ())]
)
def test_a_rare_word_becomes_its_frequent_neighbour_named_if_enough_users_typed_it(
    engine: Engine, tmp_path: Path, users: str, named: tuple[Correction, ...]
) -> None:
    typed = [(f"u{number % 5}", "cheap restaurant") for number in range(300)]
    typed += [(user, "cheap restuarant") for user in users]
    events, _ = _read(engine, tmp_path / "rows", typed)
    corrected, report = correct_spelling(engine, events, nw.col("row") >= 0, min_users=3)
    assert set(_queries(engine, corrected)) == {"cheap restaurant"}
    assert report == SpellingReport(len(users), named)


RULE = RobotRule(queries_per_hour=10, queries=30)
NOON = datetime(2024, 3, 1, 12)


def events_of(engine: Engine, tmp_path: Path, typed: list[tuple[int, datetime, int]]) -> Events:
    rows = pl.DataFrame(typed, ["user_id", "time", "query_id"], orient="row").with_row_index("row")
    return Events(scan_rows(engine, tmp_path / "rows", rows), cast(Texts, None))


def users_left(rows: Frame) -> list[int]:
    result = rows.select("user_id").unique().sort("user_id").collect("polars")
    return [int(user) for user in result["user_id"].to_list()]


def visits(
    user: int, queries: int, different: int, pause: timedelta
) -> list[tuple[int, datetime, int]]:
    return [(user, NOON + number * pause, number % different) for number in range(queries)]


def test_who_asks_too_much_in_an_hour_or_in_all(engine: Engine, tmp_path: Path) -> None:
    second, day = timedelta(seconds=1), timedelta(days=1)
    typed = [
        *visits(1, 11, 11, second),  # a burst of a program
        *visits(2, 10, 10, second),  # as much as a person may
        *visits(3, 50, 10, second),  # a person who turns pages
        *visits(4, 31, 31, day),  # a slow program with a long list
        *visits(5, 30, 30, day),
        *visits(6, 12, 12, timedelta(minutes=10)),  # spread over two hours
    ]
    left, counts = leave_out_robots(engine, events_of(engine, tmp_path, typed), RULE)
    assert users_left(left.rows) == [2, 3, 5, 6]
    assert counts == ExcludedCounts(2, 42)
    assert left.rows.select(nw.len()).collect("polars").item() == len(typed) - 42


@pytest.mark.parametrize("queries", [5, 11])
def test_without_likely_bots_the_rows_are_the_same(
    engine: Engine, tmp_path: Path, queries: int
) -> None:
    events = events_of(engine, tmp_path, visits(1, queries, 5, timedelta(seconds=1)))
    left, counts = leave_out_robots(engine, events, RULE)
    assert left is events
    assert counts == ExcludedCounts()


WORDS = {
    "university": Counted(5000, 400),
    "ohio": Counted(900, 100),
    "state": Counted(3000, 300),
    "hotel": Counted(4000, 300),
    "hotels": Counted(150, 50),
    "park": Counted(800, 90),
    "beach": Counted(2000, 200),
    "bench": Counted(40, 20),
    "garden": Counted(700, 90),
    "new": Counted(6000, 500),
    "york": Counted(2500, 300),
    "newyork": Counted(30, 20),
    "planted": Counted(100_000, 1),
    "zebra": Counted(9, 5),
    "univeristy": Counted(4, 3),
}
PAIRS = {
    ("ohio", "state"): Counted(400, 80),
    ("state", "university"): Counted(300, 90),
    ("garden", "bench"): Counted(20, 10),
    ("beach", "hotel"): Counted(900, 60),
    ("new", "york"): Counted(2400, 280),
    ("park", "planted"): Counted(90_000, 1),
}
QUERIES = ("univeristy", "beech", "bench", "plantet", "planetd", "stat", "hotles", "zebro")


@pytest.fixture(scope="module")
def speller() -> Speller:
    return learn_spelling([*WORDS, *QUERIES], WORDS, PAIRS)


def _correct(speller: Speller, query: str) -> str:
    batch = pl.DataFrame({"query_id": [0], "query": [query]})
    return str(correct_texts(batch, speller)["query"][0])


@pytest.mark.parametrize(
    ("query", "corrected"),
    [
        ("univeristy", "university"),  # long, with a far more frequent twin
        ("ohio state univeristy", "ohio state university"),
        ("beech hotel", "beach hotel"),  # the neighbour decides
        ("beech", "beech"),  # short and alone: left alone
        ("garden bench", "garden bench"),  # its own neighbour speaks for it
        ("newyork hotel", "new york hotel"),  # run together
        ("hotels", "hotels"),  # an inflection is another word
        ("plantet", "plantet"),  # one user cannot plant a target
        ("park planetd", "park planetd"),
        ("zebro", "zebro"),  # the twin is rare itself
        ("stat 1234567", "stat 1234567"),
    ],
)
def test_corrections(speller: Speller, query: str, corrected: str) -> None:
    assert _correct(speller, query) == corrected


def test_a_corrected_word_is_not_corrected_again() -> None:
    counts = {"colour": Counted(20, 5), "color": Counted(400, 40), "colours": Counted(1, 1)}
    speller = learn_spelling(counts, counts, {})
    once = _correct(speller, "colours colour")
    assert _correct(speller, once) == once


@pytest.mark.parametrize(
    ("one", "other", "forms"),
    [
        ("depressive", "depression", True),
        ("hoteles", "hotels", False),  # two endings of one group: a slip
        ("flower", "flowers", True),
        ("printing", "printed", True),
        ("nation", "national", True),
        ("depressoin", "depression", False),
        ("existance", "existence", False),
        ("flowres", "flowers", False),
        ("yahooo", "yahoo", False),
        ("read", "real", False),  # no stem in common
    ],
)
def test_forms_of_one_stem_are_distinguished_from_typos(one: str, other: str, forms: bool) -> None:
    assert inflected(one, other) is inflected(other, one) is forms


def test_a_rare_form_of_a_frequent_word_is_left_alone() -> None:
    words = {"depression": Counted(5000, 400), "depressive": Counted(6, 3)}
    counts = {**words, "manic": Counted(100, 30)}
    pairs = {("manic", "depression"): Counted(90, 30)}
    speller = learn_spelling([*words, "depresion"], counts, pairs)
    assert _correct(speller, "manic depressive") == "manic depressive"
    assert _correct(speller, "manic depresion") == "manic depression"
