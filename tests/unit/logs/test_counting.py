"""Count tables, usefulness of queries and the data folder that keeps them."""

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import narwhals as nw
import polars as pl
import pytest

from nextquery.artifacts import files, write_manifest
from nextquery.errors import ArtifactError, InputError
from nextquery.logs import data_folder
from nextquery.logs.counting import (
    AT_ONCE,
    UNDECIDED,
    USEFUL,
    CountTables,
    count_background,
    undecided_share,
    usefulness,
    with_usefulness,
)
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.prepare import prepare
from nextquery.logs.sessions import SessionRows
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import Satisfaction, make_log
from nextquery.records import Session

from .conftest import scan_rows, write_aol

QUERIES = {1: "red shoes", 2: "red", 3: "secret plan"}
TYPED = ("count", "users")
URLS = {1: "a.example", 2: "b.example"}


def _dictionary(engine: Engine, folder: Path, name: str, key: str, texts: dict[int, str]) -> Frame:
    # Ids from 0 without gaps, as the engines number texts.
    numbered = {0: "-", **texts}
    rows = pl.DataFrame({key: list(numbered), name: list(numbered.values())})
    return scan_rows(engine, folder, rows.cast({key: pl.Int64}))


@pytest.fixture
def counts(engine: Engine, tmp_path: Path) -> CountTables:
    queries = [
        # user, query, next, split, single
        (1, 1, 2, 0, False),
        (1, 2, None, 0, False),
        (2, 1, 2, 0, False),
        (2, 2, None, 0, False),
        (1, 3, 1, 0, False),  # one user only
        (1, 1, None, 0, False),
        (3, 1, None, 0, True),  # a session of one query
        (3, 1, 2, 1, False),  # training
    ]
    clicks = [(1, 1, 1, 0), (2, 1, 1, 0), (3, 1, 2, 0), (1, 3, 1, 0), (3, 1, 1, 1)]
    ids = {"user_id": pl.Int64, "query_id": pl.Int64}
    rows = pl.DataFrame(
        queries, {**ids, "next_id": pl.Int64, "split": pl.Int8, "single": pl.Boolean}, orient="row"
    )
    clicked = pl.DataFrame(clicks, {**ids, "url_id": pl.Int64, "split": pl.Int8}, orient="row")
    sessions = SessionRows(
        scan_rows(engine, tmp_path / "queries", rows),
        scan_rows(engine, tmp_path / "clicks", clicked),
    )
    return count_background(
        engine,
        sessions,
        _dictionary(engine, tmp_path / "texts", "query", "query_id", QUERIES),
        _dictionary(engine, tmp_path / "urls", "click", "url_id", URLS),
        min_users=2,
    )


def _rows(table: Frame, *columns: str) -> list[tuple[object, ...]]:
    return sorted(table.select(*columns).collect("polars").rows())


def test_every_search_counts_and_followers_need_a_session(counts: CountTables) -> None:
    in_sessions = ("count", "users", "session_count", "session_users")
    assert _rows(counts.queries, "query", *in_sessions) == [
        ("red", 2, 2, 2, 2),
        ("red shoes", 4, 3, 3, 2),
    ]
    assert _rows(counts.words, "word", *in_sessions) == [("red", 6, 3, 5, 2), ("shoes", 4, 3, 3, 2)]
    assert _rows(counts.followers, "anchor", "next", *TYPED) == [("red shoes", "red", 2, 2)]
    assert _rows(counts.clicks, "query", "url", *TYPED) == [
        ("red shoes", "a.example", 2, 2),
        ("red shoes", "b.example", 1, 1),
    ]
    assert _rows(counts.word_pairs, "first", "second", *TYPED) == [
        ("red", "shoes", 4, 3),
        ("secret", "plan", 1, 1),
    ], "pairs of few users, too"


NOON = datetime(2026, 5, 1, 12)


def marked(rows: pl.DataFrame) -> list[str]:
    """Of each query in order: useful, undecided or neither."""
    frame = with_usefulness(nw.from_native(rows.lazy()))
    result: pl.DataFrame = frame.to_native().collect()
    assert result.columns == [*rows.columns, USEFUL, UNDECIDED]
    assert not (result[USEFUL] & result[UNDECIDED]).any()
    return [
        "useful" if useful else "undecided" if undecided else "no"
        for useful, undecided in result.sort("session", "position")
        .select(USEFUL, UNDECIDED)
        .iter_rows()
    ]


def session(*queries: tuple[int, int], number: int) -> pl.DataFrame:
    """Queries as (seconds since the last, clicks)."""
    times, now = [], NOON
    for pause, _ in queries:
        now += timedelta(seconds=pause)
        times.append(now)
    return pl.DataFrame(
        {
            "session": [number] * len(queries),
            "position": range(len(queries)),
            "time": times,
            "clicks": [clicks for _, clicks in queries],
        }
    )


@pytest.mark.parametrize(
    ("sessions", "marks"),
    [
        ([((0, 1), (300, 0), (300, 2), (300, 0))], ["useful", "no", "useful", "no"]),
        ([((0, 1), (AT_ONCE, 1), (AT_ONCE + 1, 0))], ["no", "useful", "no"]),
        ([((0, 1),), ((5, 1),), ((0, 0),)], ["undecided", "undecided", "no"]),
    ],
    ids=["clicked and left in peace", "typed again at once", "the last query of a session"],
)
def test_a_query_is_useful_by_its_clicks_and_the_next_query(
    sessions: list[tuple[tuple[int, int], ...]], marks: list[str]
) -> None:
    rows = [session(*queries, number=number) for number, queries in enumerate(sessions)]
    assert marked(pl.concat(rows)) == marks


def _made_up(satisfaction: Satisfaction) -> pl.DataFrame:
    queries = make_log(3000, seed=1, satisfaction=satisfaction).queries
    position = pl.int_range(pl.len()).over("session").alias("position")
    rows = queries.with_columns(position, pl.from_epoch("time", time_unit="s"))
    marks = marked(rows.select("session", "position", "time", "clicks"))
    last = (pl.col("position") == pl.col("position").max().over("session")).alias("last")
    return rows.with_columns(last, mark=pl.Series(marks))


def test_it_finds_who_was_satisfied_in_a_log_that_knows() -> None:
    """Where another query follows, exactly the satisfied ones; clicks alone tell less."""
    rows = _made_up("outcome")
    followed = rows.filter(~pl.col("last"))
    assert ((followed["mark"] == "useful") == followed["satisfied"]).all()
    clicked = rows.filter(pl.col("clicks") > 0)
    assert cast(float, clicked["satisfied"].mean()) < 0.75, "the control"


def test_the_share_of_undecided_ones_favours_no_ending() -> None:
    """By chance, last queries are as useful as others: on average, so are they marked."""
    rows = _made_up("chance")
    useful, followed = rows["mark"] == "useful", ~rows["last"] & (rows["clicks"] > 0)
    share = undecided_share(int(useful.sum()), int(followed.sum()))
    certain = (pl.col("mark") == "useful").cast(pl.Float64)
    value = pl.when(pl.col("mark") == "undecided").then(share).otherwise(certain)
    means = rows.with_columns(value=value).group_by("last").agg(pl.col("value").mean())
    before, ending = means.sort("last")["value"]
    assert ending == pytest.approx(before, abs=0.02)


def test_every_query_of_a_split_has_a_number(prepared: Any, tiny_log: Any) -> None:
    """A minute is between queries here: a clicked one that another follows was not useful."""
    sessions = [("a", ("shoes", "boots")), ("b", ("shoes", "hats", "boots"))]
    clicks = [("a", "boots", "https://example/1"), ("b", "hats", "https://example/2")]
    data = prepared(tiny_log(sessions, clicks=clicks, parts=2, reverse=True))
    expected = [0.0, 1 / 3, 0.0, 0.0, 0.0]  # one clicked and followed, none of them useful
    assert list(usefulness(data, "background")) == pytest.approx(expected)
    with pytest.raises(InputError, match="no query was clicked"):
        list(usefulness(prepared(tiny_log(sessions)), "background"))


SESSIONS = [("a", ("one", "two", "three")), ("b", ("four", "five")), ("c", ("six",) * 4)]


@pytest.mark.parametrize("rows", [1, 2, 4, 1000])
def test_sessions_do_not_depend_on_how_many_rows_are_read(
    prepared: Any, tiny_log: Any, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(data_folder, "_ROWS_AT_A_TIME", rows)
    data = prepared(tiny_log(SESSIONS))
    expected = [Session(n, user, queries) for n, (user, queries) in enumerate(SESSIONS)]
    assert list(data.sessions("background")) == expected


SEARCHES = [
    *[(f"s{n}", ("red shoes",)) for n in range(2)],
    *[(f"t{n}", ("red shoes", "blue hats")) for n in range(2)],
]


def test_single_searches_count_unless_only_sessions_are_asked_for(tmp_path: Path) -> None:
    rows = [
        (user, query, f"2006-03-01 10:0{minute}:00")
        for user, queries in SEARCHES
        for minute, query in enumerate(queries)
    ]
    log = write_aol(tmp_path / "log.tsv", rows)
    cuts = "2006-04-01,2006-05-01,2006-06-01"
    prepare([log], tmp_path / "data", PrepareSettings(min_users=3, split_at=cuts))
    data = data_folder.PreparedData(tmp_path / "data")

    assert data.counts("queries").select("query", "count", "users").collect().rows() == [
        ("red shoes", 4, 4)
    ]
    assert data.counts_single_searches
    assert len(data.search_rows("background").collect()) == 6
    assert len(data.session_rows("background").collect()) == 4
    assert data.artifact.entry("counts")["searches"]["background"] == 6
    assert data.words() == ["red", "shoes"]

    paper = data.within_sessions()
    assert paper.counts("queries").collect().is_empty(), "two users typed it in a session"
    assert paper.counts("words").collect().is_empty()
    assert len(paper.search_rows("background").collect()) == 4


def test_a_folder_of_an_earlier_version_counts_what_it_has(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS))
    assert not data.counts_single_searches
    assert (
        data.within_sessions().counts("queries").collect().equals(data.counts("queries").collect())
    )
    assert len(data.search_rows("background").collect()) == 9


HARMED = {
    "a time beyond all calendars": pl.lit(2**62).cast(pl.Datetime("us")).alias("time"),
    "a text in the place of numbers": pl.lit("x").alias("session"),
    "nothing": pl.lit(None, pl.String).alias("query"),
}


@pytest.mark.parametrize("harm", HARMED)
def test_tables_that_do_not_fit_are_refused_even_with_a_manifest_that_does(
    prepared: Any, tiny_log: Any, tmp_path: Path, harm: str
) -> None:
    folder = shutil.copytree(prepared(tiny_log(SESSIONS)).path, tmp_path / "data")
    file = folder / "sessions" / "background" / "part-00000.parquet"
    pl.read_parquet(file).with_columns(HARMED[harm]).write_parquet(file)
    write_manifest(folder, "data", json.loads((folder / "manifest.json").read_text()))
    with pytest.raises(ArtifactError, match=r"background/part-00000\.parquet(: column| has a)"):
        data_folder.PreparedData(folder)


def test_a_folder_that_never_stays_is_refused(
    prepared: Any, tiny_log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        shutil.copytree(prepared(tiny_log(SESSIONS)).path, tmp_path / name)

    def replace(data: data_folder.PreparedData) -> None:
        files.exchange(tmp_path / "one", tmp_path / "other")
        raise OSError

    with pytest.raises(ArtifactError, match="again and again"):
        data_folder.read_data(tmp_path / "one", replace)


def test_an_error_that_is_not_from_a_replacement_is_raised(prepared: Any, tiny_log: Any) -> None:
    def fail(data: data_folder.PreparedData) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        data_folder.read_data(prepared(tiny_log(SESSIONS)).path, fail)
