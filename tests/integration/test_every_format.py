"""The same searches in each format, and as exports really spell them, through `prepare`."""

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import polars as pl
import pytest
from tests.reliability.log_files import workbook

import nextquery
from nextquery.logs.formats.detection import FORMATS

pytestmark = pytest.mark.slow

START = datetime(2024, 3, 1, 10)
TEXTS = ("red shoes", "café paris", "red boots")
SEARCHES = [
    (f"u{user}", text, START + timedelta(minutes=40 * user + step))
    for user in range(4)
    for step, text in enumerate(TEXTS)
]
USUAL = "%Y-%m-%d %H:%M:%S"


def table(separator: str, pattern: str, head: str = "user query time", above: str = "") -> str:
    lines = [separator.join(head.split())]
    lines += [separator.join((user, text, f"{time:{pattern}}")) for user, text, time in SEARCHES]
    return above + "\n".join(lines) + "\n"


def objects(make: Callable[[str, str, datetime], Any]) -> list[Any]:
    return [make(*search) for search in SEARCHES]


def lines(make: Callable[[str, str, datetime], Any]) -> str:
    return "".join(json.dumps(item) + "\n" for item in objects(make))


def seconds(time: datetime) -> float:
    return time.replace(tzinfo=UTC).timestamp()


def ubi(user: str, text: str, time: datetime) -> dict[str, Any]:
    return {
        "query_id": f"{user}-{text}",
        "client_id": user,
        "user_query": text,
        "timestamp": f"{time:%Y-%m-%dT%H:%M:%SZ}",
    }


def elastic(user: str, text: str, time: datetime) -> dict[str, Any]:
    event = {"event": {"action": "search"}, "session": {"id": f"s-{user}"}, "user": {"id": user}}
    return {
        "_source": {"@timestamp": f"{time:%Y-%m-%dT%H:%M:%SZ}", "search": {"query": text}, **event}
    }


def ga4(user: str, text: str, time: datetime) -> dict[str, Any]:
    parameters = [
        {"key": "page_location", "value": {"string_value": "https://shop.example/?q=x"}},
        {"key": "search_term", "value": {"string_value": text, "int_value": None}},
    ]
    event = {"event_name": "view_search_results", "event_params": parameters}
    return {"event_timestamp": str(int(seconds(time) * 1e6)), "user_pseudo_id": user, **event}


def matomo(user: str, text: str, time: datetime) -> dict[str, Any]:
    action = {"type": "search", "siteSearchKeyword": text, "timestamp": int(seconds(time))}
    return {"idVisit": 1, "visitorId": user, "actionDetails": [action]}


def algolia(user: str, text: str, time: datetime) -> dict[str, Any]:
    body = json.dumps({"query": text, "userToken": user})
    known = {"answer_code": "200", "url": "/1/indexes/products/query", "ip": "192.0.2.7"}
    return {"timestamp": f"{time:%Y-%m-%dT%H:%M:%SZ}", "query_body": body, **known}


def plain(user: str, text: str, time: datetime) -> dict[str, Any]:
    return {
        "user": user,
        "query": text,
        "time": f"{time + timedelta(hours=5.5):%Y-%m-%dT%H:%M:%S+05:30}",
    }


def access(user: str, text: str, time: datetime) -> str:
    request = f"GET /search?page=1&q={quote_plus(text)} HTTP/1.1"
    return (
        f'192.0.2.{user[1:]} - - [{time:%d/%b/%Y:%H:%M:%S +0000}] "{request}" 200 5 "-" "Mozilla"\n'
    )


def parquet() -> bytes:
    frame = pl.DataFrame(SEARCHES, schema=["user", "query", "time"], orient="row")
    stream = io.BytesIO()
    frame.write_parquet(stream)
    return stream.getvalue()


def excel() -> bytes:
    rows: list[list[object]] = [["Site search"], [], ["user", "query", "time"]]
    return workbook([*rows, *map(list, SEARCHES)])


LOGS: dict[str, Callable[[], str | bytes]] = {
    "access": lambda: "".join(objects(access)),
    "algolia": lambda: json.dumps({"logs": objects(algolia)}),
    "aol": lambda: table("\t", USUAL).partition("\n")[2],
    "csv": lambda: table(",", USUAL),
    "elastic": lambda: lines(elastic),
    "excel": excel,
    "excite": lambda: "".join(f"{u}\t{time:%y%m%d%H%M%S}\t{text}\n" for u, text, time in SEARCHES),
    "ga4": lambda: lines(ga4),
    "matomo": lambda: json.dumps(objects(matomo)),
    "ndjson": lambda: lines(plain),
    "parquet": parquet,
    "tsv": lambda: table("\t", USUAL),
    "ubi": lambda: lines(ubi),
    "csv, a mark and CR LF": lambda: table(",", USUAL).replace("\n", "\r\n").encode("utf-8-sig"),
    "csv, German": lambda: table(";", "%d.%m.%Y %H:%M:%S"),
    "csv, American": lambda: table(",", "%m/%d/%Y %I:%M:%S %p", "User Query Time"),
    "csv, a title above": lambda: table(",", "%Y/%m/%d %H:%M:%S", above="# Searches\n\n"),
    "csv, the time of servers": lambda: table("|", "%d/%b/%Y:%H:%M:%S +0000"),
    "tsv, UTF-16 of Excel": lambda: table("\t", USUAL).replace("\n", "\r\n").encode("utf-16"),
    "ga4, a list": lambda: json.dumps(objects(ga4), indent=1),
    "ndjson, a list": lambda: json.dumps(objects(plain)),
    "ubi, a list": lambda: json.dumps(objects(ubi)),
}


def test_there_is_a_log_of_each_format() -> None:
    assert FORMATS.keys() <= LOGS.keys()


@pytest.mark.parametrize("name", LOGS)
def test_every_search_is_taken(name: str, tmp_path: Path) -> None:
    content = LOGS[name]()
    log = tmp_path / "log"
    log.write_bytes(content.encode() if isinstance(content, str) else content)
    data = nextquery.prepare(log, tmp_path / "data", spelling=False, min_users=1)
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert manifest["settings"]["format"] == name.split(",")[0]
    assert manifest["counts"]["rows_accepted"] == len(SEARCHES)
    assert manifest["counts"]["users"] == 4
    sessions = [session for split in data.splits for session in data.sessions(split)]
    assert [tuple(session.queries) for session in sessions] == [TEXTS] * 4
