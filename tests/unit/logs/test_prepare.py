"""`prepare` from log to data folder: settings, journal, titles, and what remains."""

import gzip
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.errors import InputError, LogError
from nextquery.guard.guard import Guard, TitleHits
from nextquery.logs.cleaning import REJECTED_OWNERS, ROWS
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.privacy import pseudonym
from nextquery.logs.revise import forget
from nextquery.logs.settings import PrepareSettings, ReadSettings
from nextquery.logs.titles import read_titles
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import count_model

from .conftest import write_aol


def test_progress_hears_every_stage_in_order(log: Path, tmp_path: Path) -> None:
    heard: list[str] = []
    settings = PrepareSettings(min_users=1)
    prepare([log], tmp_path / "data", settings, lambda stage, share: heard.append(stage))
    stages = ["reading", "cleaning", "spelling", "sessions", "counting", "publishing"]
    assert list(dict.fromkeys(heard)) == stages


def test_a_failed_job_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("nonsense\n")
    with pytest.raises(LogError):
        prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings())
    assert [path.name for path in tmp_path.iterdir()] == ["log.tsv"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"idle_minutes": 0}, "`idle_minutes` 0: must be at least 1"),
        ({"idle_minutes": 10**30}, "`idle_minutes` 10+: must be at most 1,000,000"),
        ({"max_session_queries": 1}, "`max_session_queries` 1: must be at least 2"),
        ({"vocabulary_size": 0}, "`vocabulary_size` 0: must be at least 1"),
        ({"min_users": -1}, "`min_users` -1: must be at least 1"),
        ({"max_user_repeats": 0}, "`max_user_repeats` 0: must be at least 1"),
        ({"max_user_share": 0.0}, "`max_user_share` 0.0: give a share above 0"),
        ({"holdout_users": 1.0}, "`holdout_users` 1.0: give a share below 1"),
    ],
)
def test_values_that_make_no_sense_are_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PrepareSettings(**choice)


def test_a_log_without_sessions_before_the_first_cut_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("a\tred\t2006-03-01 10:00:00\t\t\n" * 2)
    with pytest.raises(LogError, match="no session of two or more queries in the background"):
        prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(min_users=1))


def test_raw_rows_are_for_the_owner_s_eyes_while_the_job_runs(log: Path, tmp_path: Path) -> None:
    modes: list[int] = []

    def look(stage: str, share: float) -> None:
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("work"))

    prepare([log], tmp_path / "data", PrepareSettings(min_users=1), look)
    assert set(modes) == {0o700}
    listed = tmp_path / "data" / "rejected.ndjson.gz"
    assert stat.S_IMODE(listed.stat().st_mode) == 0o600


ROW = "{}\t{}\t2006-0{}-01 10:0{}:00\t1\thttp://x.example\n"


def test_the_journal_has_every_row_and_no_text_that_was_dropped(tmp_path: Path) -> None:
    rows = [ROW.format("ann", "Red Shoes!", month, n) for month in (1, 2, 3, 4, 5) for n in (1, 2)]
    rows.insert(1, ROW.format("ann", "jane@example.com", 1, 1))
    rows.insert(3, ROW.format("ann", "Red  boots", 1, 3))
    (tmp_path / "log.tsv").write_text("".join([*rows, "bob\tbroken\n"]))
    settings = PrepareSettings(ReadSettings(max_rejected=1), min_users=1)
    prepare([tmp_path / "log.tsv"], tmp_path / "data", settings)
    result = pl.read_parquet(tmp_path / "data" / ROWS)
    assert result["place"].to_list() == list(range(1, 13))
    assert set(result["user"]) == {str(pseudonym("ann"))}
    kept = ("query", "click", "drop")
    assert result.select(kept).rows()[:4] == [
        ("red shoes", "http://x.example", None),
        (None, None, "personal"),
        ("red shoes", "http://x.example", None),
        ("red boots", "http://x.example", None),
    ]
    owners = pl.read_parquet(tmp_path / "data" / REJECTED_OWNERS)
    assert owners.rows() == [(13, str(pseudonym("bob")), None)]
    for name in (ROWS, REJECTED_OWNERS):
        assert stat.S_IMODE((tmp_path / "data" / name).stat().st_mode) == 0o600


SITEMAP = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:news="http://news.example">
  <url><loc>https://shop.example/p/red-shoes.html</loc></url>
  <url><loc>https://shop.example/p/7</loc><news:news><news:title>Blue Hats</news:title></news:news>
  </url>
  <url><loc>https://shop.example/</loc></url>
</urlset>
"""
FILES = {
    "titles.txt": "Red Shoes\n\nBlue hats\nme@example.com\nRED shoes\n" + "long " * 40,
    "titles.csv": 'id,title\n1,"Red Shoes"\n2,Blue hats\n3,\n',
    "sitemap.xml": SITEMAP,
}


@pytest.mark.parametrize("name", [*FILES, "sitemap.xml.gz"])
def test_titles_are_read_and_cleaned_as_queries_are(tmp_path: Path, name: str) -> None:
    content = FILES[name.removesuffix(".gz")].encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    source = str(tmp_path / name) + (":title" if name.endswith(".csv") else "")
    assert read_titles(source, PrepareSettings()) == ["red shoes", "blue hats"]


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        ("a,b\n1,2\n", ":title", "has no column 'title'; it has a, b"),
        ("\n \n", "", "has no title of at most 100 characters"),
        ("<sitemapindex/>", "", "an index of sitemaps; give one"),
        ("<urlset>", "", "cannot be read as a sitemap"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><urlset/>', "", "a sitemap with a DOCTYPE is not read"),
    ],
)
def test_a_file_without_titles_is_refused_by_what_it_lacks(
    tmp_path: Path, content: str, column: str, message: str
) -> None:
    (tmp_path / "titles").write_text(content)
    with pytest.raises(InputError, match=message):
        read_titles(f"{tmp_path / 'titles'}{column}", PrepareSettings())


TITLES = ["Red boots for men", "Red shoes", "Rain coats", "Sandals"]


def _prepared(folder: Path, users: int, **settings: Any) -> PreparedData:
    rows = [
        (f"u{user}", query, f"2006-03-01 10:0{minute}:00")
        for user in range(users)
        for minute, query in enumerate(["red shoes", "red hats"])
    ]
    log = write_aol(folder / "log.tsv", rows)
    (folder / "titles.txt").write_text("\n".join(TITLES))
    cuts = "2006-04-01,2006-04-02,2006-04-03"
    titles = str(folder / "titles.txt")
    chosen = PrepareSettings(spelling=False, split_at=cuts, titles=titles, **settings)
    prepare([log], folder / "data", chosen)
    return PreparedData(folder / "data")


@pytest.mark.parametrize("kind", ["popularity", "adjacency"])
def test_titles_come_after_typed_queries_and_are_marked(tmp_path: Path, kind: str) -> None:
    fit_model(count_model(kind), _prepared(tmp_path, 4)).save(tmp_path / "model")
    model = count_model(kind).load(tmp_path / "model")

    completed = model.complete([], "red", 5)
    assert [item.text for item in completed] == ["red hats", "red shoes", "red boots for men"]
    assert [item.source == "title" for item in completed] == [False, False, True]
    scores = [item.score for item in completed]
    assert scores == sorted(scores, reverse=True)
    assert model.complete([], "sand", 5)[0].text == "sandals"

    filled = model.suggest(["red hats"], 5)
    assert (filled[-1].text, filled[-1].source) == ("red boots for men", "title")
    known = [item.text for item in model.suggest(["red hats"], 5, known="only")]
    assert "red boots for men" not in known
    assert not [item for item in model.suggest(["umbrella"], 5) if item.source == "title"]


def test_the_blocklist_and_the_hits_check_hold_for_titles(tmp_path: Path) -> None:
    fit_model(count_model("popularity"), _prepared(tmp_path, 4)).save(tmp_path / "model")
    (tmp_path / "blocklist.txt").write_text("boots\n")
    blocked = Guard.open(tmp_path / "model", tmp_path / "blocklist.txt")
    model = count_model("popularity").load(tmp_path / "model", blocked)
    assert [item.text for item in model.complete([], "r", 5)][2:] == ["rain coats"]
    nothing = Guard.open(tmp_path / "model", hits=TitleHits(["sandals"]))
    model = count_model("popularity").load(tmp_path / "model", nothing)
    assert not model.complete([], "r", 5)


def test_a_new_site_has_its_titles_before_any_query_is_known(tmp_path: Path) -> None:
    data = _prepared(tmp_path, 2)
    assert data.counts("queries").collect().is_empty()
    fit_model(count_model("popularity"), data).save(tmp_path / "model")
    model = count_model("popularity").load(tmp_path / "model")
    completed = [item.text for item in model.complete([], "red", 5)]
    assert completed == ["red shoes", "red boots for men"]
    assert [item.source for item in model.suggest(["red umbrella"], 2)] == ["title", "title"]
    with pytest.raises(InputError, match="no query was typed by 3 users"):
        fit_model(count_model("adjacency"), data)


def test_titles_stay_when_somebody_is_forgotten(tmp_path: Path) -> None:
    data = _prepared(tmp_path, 5)
    assert data.artifact.entry("counts")["titles"] == 4
    before = data.titles()
    forget(tmp_path / "data", ["u1"])
    again = PreparedData(tmp_path / "data")
    assert again.titles() == before == [title.lower() for title in TITLES]
    assert again.artifact.entry("counts")["titles"] == 4
