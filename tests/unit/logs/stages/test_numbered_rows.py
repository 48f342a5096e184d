"""Rows become ids; what is dropped is counted; corrections are applied once per distinct text."""

from datetime import datetime
from pathlib import Path

import narwhals as nw
import polars as pl

from nextquery.logs.cleaning import CleaningRules, Events, RowCounts, correct_spelling, read_events
from nextquery.logs.engines.base import Engine

RULES = CleaningRules()


def _read(engine: Engine, folder: Path, typed: list[tuple[str, str]]) -> tuple[Events, RowCounts]:
    folder.mkdir()
    rows = pl.DataFrame(typed, ["user", "query"], orient="row").with_columns(
        time=pl.lit(datetime(2006, 3, 1)),
        click=pl.lit(None, pl.String),
        row=pl.int_range(pl.len(), dtype=pl.Int64),
    )
    engine.write_part(rows.select("user", "time", "query", "click", "row"), folder / "part-00000")
    return read_events(engine, folder, nw.lit(False), RULES, None)


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


def test_a_rare_word_becomes_its_frequent_neighbour(engine: Engine, tmp_path: Path) -> None:
    typed = [(f"u{number % 5}", "cheap restaurant") for number in range(300)]
    typed += [("a", "cheap restuarant"), ("b", "cheap restuarant"), ("c", "cheap restuarant")]
    events, _ = _read(engine, tmp_path / "rows", typed)
    corrected, report = correct_spelling(engine, events, nw.col("row") >= 0, min_users=3)
    assert set(_queries(engine, corrected)) == {"cheap restaurant"}
    assert report.words_changed == 3
    (change,) = report.corrections
    assert (change.word, change.replacement, change.rows) == ("restuarant", "restaurant", 3)


def test_a_correction_of_too_few_users_is_made_but_not_named(
    engine: Engine, tmp_path: Path
) -> None:
    typed = [(f"u{number % 5}", "cheap restaurant") for number in range(300)]
    events, _ = _read(engine, tmp_path / "rows", [*typed, ("a", "cheap restuarant")])
    _, report = correct_spelling(engine, events, nw.col("row") >= 0, min_users=3)
    assert (report.words_changed, report.corrections) == (1, ())
