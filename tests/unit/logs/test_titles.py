"""Titles of a site: how they are read, kept and served."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.guard.guard import Guard, TitleHits
from nextquery.logs.cleaning import CleaningRules
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.revise import forget
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.titles import read_titles
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import count_model

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
    assert read_titles(source, CleaningRules()) == ["red shoes", "blue hats"]


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
        read_titles(f"{tmp_path / 'titles'}{column}", CleaningRules())


HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
TITLES = ["Red boots for men", "Red shoes", "Rain coats", "Sandals"]


def _prepared(folder: Path, users: int, **settings: Any) -> PreparedData:
    rows = [
        f"u{user}\t{query}\t2006-03-01 10:0{minute}:00\t\t\n"
        for user in range(users)
        for minute, query in enumerate(["red shoes", "red hats"])
    ]
    (folder / "log.tsv").write_text(HEADER + "".join(rows))
    (folder / "titles.txt").write_text("\n".join(TITLES))
    cuts = "2006-04-01,2006-04-02,2006-04-03"
    titles = str(folder / "titles.txt")
    chosen = PrepareSettings(spelling=False, split_at=cuts, titles=titles, **settings)
    prepare([folder / "log.tsv"], folder / "data", chosen)
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
