"""Matomo's visits log, as its API answers."""

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.logs.reading import rejects
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.settings import ReadSettings


def action(kind: str, second: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "timestamp": 1709287200 + second,
        "serverTimePretty": "Mar 1, 2024 10:00:00",
        "pageTitle": None,
        "url": None,
        "icon": None,
        **fields,
    }


def visit(visitor: str, *actions: dict[str, Any], user: str | None = None) -> dict[str, Any]:
    return {
        "idSite": "1",
        "idVisit": "4711",
        "visitIp": "192.0.2.0",
        "visitorId": visitor,
        "userId": user,
        "actionDetails": list(actions),
        "searches": 1,
        "countryCode": "fr",
    }


VISITS = [
    visit(
        "a1b2c3d4e5f60718",
        action("action", 0, url="https://shop.example/"),
        action("search", 5, siteSearchKeyword="chaussures rouges", siteSearchCategory=None),
        action("search", 9, siteSearchKeyword="chaussures"),
        action("action", 20, url="https://shop.example/p/7"),
        action("action", 40, url="https://shop.example/p/8"),
    ),
    visit("ffff", action("search", 60, siteSearchKeyword="été"), user="marie"),
    visit("0000", action("event", 70, eventCategory="cart")),
]


@pytest.mark.parametrize("shape", ["a list", "objects on lines", "compressed", "with spaces"])
def test_searches_and_what_was_opened_after_them(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "visits.json"
    text = json.dumps(VISITS, indent=2 if shape == "with spaces" else None)
    if shape == "objects on lines":
        text = "".join(json.dumps(each) + "\n" for each in VISITS)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if shape == "compressed" else data)
    result = read_logs([path], ReadSettings(), tmp_path / "work")
    rows = pl.read_parquet(tmp_path / "work" / "rows").sort("row")
    assert result.format == "matomo"
    assert result.reason == "it is JSON with visits and their actionDetails"
    assert rows.select("user", "query", "click").rows() == [
        ("a1b2c3d4e5f60718", "chaussures rouges", None),
        ("a1b2c3d4e5f60718", "chaussures", None),
        ("a1b2c3d4e5f60718", "chaussures", "https://shop.example/p/7"),
        ("marie", "été", None),
    ]
    assert rows["time"][0] == datetime(2024, 3, 1, 10, 0, 5)
    assert result.reasons == {rejects.NOT_A_SEARCH: 3}


def test_odd_visits_are_rejected_not_fatal(tmp_path: Path) -> None:
    odd = [
        visit("v", action("search", 0, siteSearchKeyword="half \ud800")),
        visit("v", action("search", 0, siteSearchKeyword="nul \0")),
        visit("", action("search", 0, siteSearchKeyword="nobody")),
        {"idVisit": 1, "actionDetails": "none"},
        {"idVisit": 1, "actionDetails": [7]},
    ]
    path = tmp_path / "visits.json"
    path.write_text(json.dumps(odd + VISITS))
    result = read_logs([path], ReadSettings(max_rejected=1.0), tmp_path / "work")
    assert result.rows_accepted == 4
    assert result.reasons == {
        rejects.NOT_A_SEARCH: 5,
        rejects.MALFORMED_TEXT: 1,
        rejects.NUL_BYTE: 1,
        rejects.NO_USER: 1,
    }
