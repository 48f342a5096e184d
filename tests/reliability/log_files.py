"""Small logs of every format, and what may happen to a file on its way."""

import gzip
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from xml.sax.saxutils import escape

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

_TIME = "2006-03-01 07:17:12"
_ODD = (
    *(b"\0", b"\r", b"\n", b"\t", b",", b'"', b"{", b"[", b"}", b"$", b"'", b"=", b" ", b"\x85"),
    *(b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\x1f\x8b", b"PAR1"),
    *(b"null", b"NaN", b"1e999", b"-1", b"9" * 400, b"[" * 2000, b'{"a":' * 1500),
    *(b'{"_source": "x"}\n', b'{"_source": 1}\n', b"0000-00-00 00:00:00", b"99999999999"),
    *(b"9999-12-31T23:59:59+99:99", b"2006-03-01T24:00:00Z", b"2006-03-01T07:17:12.123456789123"),
)
_SEPARATORS = (b"\n", b"\t", b",", b'"', b":")


def seeds() -> dict[str, bytes]:
    """A good file of each format, by name."""
    aol = "".join(
        f"{n}\tred {n}\t{_TIME}\t1\ta.example\n{n}\tblue\t{_TIME}\t\t\n" for n in range(8)
    )
    csv = "".join(f'{n},{_TIME},"red ""{n}"", blue",x\n' for n in range(8))
    tsv = "".join(f"{n}\t{_TIME}\tred {n}\tx\n" for n in range(8))
    plain = [{"user": n, "time": _TIME, "query": f"red {n}", "click": None} for n in range(8)]
    header = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
    return {
        "aol": (header + aol).encode(),
        "access": "".join(_request(n) for n in range(8)).encode(),
        "excite": "".join(f"A{n}\t970916105432\tred {n}\n" for n in range(10)).encode(),
        "csv": ("user,time,query,click\n" + csv).encode(),
        "tsv": ("user\ttime\tquery\tclick\n" + tsv).encode(),
        "ndjson": _lines(plain),
        "elastic": _lines(_elastic(n) for n in range(8)),
        "ubi": _lines(row for n in range(6) for row in _ubi(n)),
        "ga4": _lines(_ga4(n) for n in range(8)),
        "matomo": json.dumps([_matomo(n) for n in range(6)]).encode(),
        "algolia": json.dumps({"logs": [_algolia(n) for n in range(6)]}).encode(),
        "excel": workbook([["user", "time", "query"], *([n, _TIME, f"red {n}"] for n in range(8))]),
        "parquet": _parquet(),
        "parquet of ubi": _parquet_of_ubi(),
        "parquet of numbers": _parquet_of_numbers(),
        "gzip": gzip.compress((header + aol).encode()),
    }


def mutate(random: Random, data: bytes) -> bytes:
    """The file after one to ten accidents."""
    for _ in range(random.choice([1, 1, 2, 4, 10])):
        data = _accident(random, data)
    return data


def _accident(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.randrange(1, 30))
    before, inside, after = data[:start], data[start:end], data[end:]
    kind = random.randrange(8)
    if kind == 0:
        return before + bytes([random.randrange(256)]) + after
    if kind == 1:
        return before + after
    if kind == 2:
        return before + random.choice(_ODD) + inside + after
    if kind == 3:
        return before + random.choice(_ODD) + after
    if kind == 4:
        return before + inside * random.choice([2, 3, 50]) + after
    if kind == 5:
        return before
    if kind == 6:
        lines = data.split(b"\n")
        random.shuffle(lines)
        return b"\n".join(lines)
    return data.replace(random.choice(_SEPARATORS), random.choice(_ODD))


def _lines(objects: Iterable[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in objects).encode()


def _request(number: int) -> str:
    moment = "01/Mar/2006:07:17:12 +0000"
    return f'192.0.2.{number} - - [{moment}] "GET /s?q=red+{number} HTTP/1.1" 200 5 "-" "Agent"\n'


def _elastic(number: int) -> Mapping[str, object]:
    return {
        "@timestamp": "2023-05-16T12:00:00Z",
        "event": {"action": "search"},
        "session": {"id": f"s{number}"},
        "search": {"query": f"red {number}"},
    }


def _ubi(number: int) -> list[Mapping[str, object]]:
    time, query_id = "2025-02-18T10:00:00Z", f"q{number}"
    clicked = {"object": {"object_id": "x"}}
    return [
        {"query_id": query_id, "client_id": "u", "user_query": f"red {number}", "timestamp": time},
        {"action_name": "click", "query_id": query_id, "event_attributes": clicked},
    ]


def _ga4(number: int) -> Mapping[str, object]:
    parameters = [{"key": "search_term", "value": {"string_value": f"red {number}"}}]
    return {
        "event_timestamp": "1609459200000000",
        "event_name": "view_search_results",
        "event_params": parameters,
        "user_pseudo_id": f"1.{number}",
    }


def _matomo(number: int) -> Mapping[str, object]:
    search = {"type": "search", "siteSearchKeyword": f"red {number}", "timestamp": 1709287200}
    page = {"type": "action", "url": "https://shop.example/7", "timestamp": 1709287210}
    return {"idVisit": number, "visitorId": f"v{number}", "actionDetails": [search, page]}


def _algolia(number: int) -> Mapping[str, object]:
    return {
        "timestamp": "2024-03-01T10:00:00Z",
        "method": "POST",
        "answer_code": "200",
        "query_body": json.dumps({"params": f"query=red%20{number}&hitsPerPage=5"}),
        "url": "/1/indexes/products/query",
        "ip": f"192.0.2.{number}",
    }


_WORKBOOK_PARTS = {
    "[Content_Types].xml": (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/></Types>'
    ),
    "_rels/.rels": (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="a" Target="xl/workbook.xml" Type="http://schemas.openxmlformats.org/'
        'officeDocument/2006/relationships/officeDocument"/></Relationships>'
    ),
    "xl/styles.xml": (
        '<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><cellXfs>'
        '<xf numFmtId="0"/><xf numFmtId="22"/></cellXfs></styleSheet>'
    ),
}
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def workbook(*sheets: Sequence[Sequence[object]]) -> bytes:
    """An Excel file with these rows; a datetime becomes a cell that Excel shows as one."""
    parts = dict(_WORKBOOK_PARTS)
    names = [f"sheet{number}" for number in range(1, len(sheets) + 1)]
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="{name}"/>' for n, name in enumerate(names, 1)
    )
    links = "".join(
        f'<Relationship Id="{name}" Type="{_OFFICE}/worksheet" Target="worksheets/{name}.xml"/>'
        for name in names
    )
    parts["xl/workbook.xml"] = (
        f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{listed}</sheets></workbook>'
    )
    parts["xl/_rels/workbook.xml.rels"] = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'{links}<Relationship Id="s" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>'
    )
    for name, rows in zip(names, sheets, strict=True):
        parts[f"xl/worksheets/{name}.xml"] = (
            f'<worksheet xmlns="{_MAIN}"><sheetData>{_sheet_rows(rows)}</sheetData></worksheet>'
        )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(zipfile.ZipInfo(name), text)
    return stream.getvalue()


def _sheet_rows(rows: Sequence[Sequence[object]]) -> str:
    return "".join(
        f'<row r="{number}">'
        + "".join(_cell(f"{chr(65 + column)}{number}", value) for column, value in enumerate(cells))
        + "</row>"
        for number, cells in enumerate(rows, 1)
    )


def _cell(reference: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        days = (value - datetime(1899, 12, 30)) / timedelta(days=1)
        return f'<c r="{reference}" s="1"><v>{days!r}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{reference}"><v>{value}</v></c>'
    return f'<c r="{reference}" t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'


def _parquet_of_ubi() -> bytes:
    stream = io.BytesIO()
    rows = [row for n in range(6) for row in _ubi(n)]
    whole = {**rows[0], **rows[1]}
    pq.write_table(pa.Table.from_pylist([whole, *rows]), stream)
    return stream.getvalue()


def _parquet() -> bytes:
    stream = io.BytesIO()
    times = [datetime(2006, 3, 1) + timedelta(minutes=n) for n in range(50)]
    queries = [f"red {n % 5}" for n in range(50)]
    pl.DataFrame({"user": ["u"] * 50, "time": times, "query": queries}).write_parquet(stream)
    return stream.getvalue()


def _parquet_of_numbers() -> bytes:
    stream = io.BytesIO()
    times = pa.array(range(1_141_197_432, 1_141_197_482))
    table = pa.table({"user": pa.array(range(50)), "time": times, "query": [b"red"] * 50})
    pq.write_table(table, stream, compression="zstd")
    return stream.getvalue()
