"""Formats are detected by content; columns, conditions and access logs."""

import gzip
import json
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl
import pytest
from tests.reliability.log_files import workbook

import nextquery.logs.formats
from nextquery.errors import InputError, LogError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.engines import open_engine
from nextquery.logs.engines.base import Engine, Frame
from nextquery.logs.formats.access_log import AccessFormat, AccessLayout
from nextquery.logs.formats.base import (
    STAGED_COLUMNS,
    LogFormat,
    check_columns,
    find_columns,
    join_clicks,
    stage_clicks,
)
from nextquery.logs.formats.detection import FORMATS, check_settings, choose_format
from nextquery.logs.prepare import prepare
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import Sample, take_sample
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.reading.rows import ParsedRows
from nextquery.logs.revise import recorded_settings
from nextquery.logs.settings import FORMAT_NAMES, PrepareSettings, ReadSettings

from .conftest import HEADER, parse_texts, read_rows

AOL_ROW = "7\tred shoes\t2006-03-01 07:17:12\t\t\n"
EXCITE_ROW = "A1\t970916105432\tred shoes\n"
UBI_QUERY = json.dumps({"query_id": "a", "client_id": "u", "user_query": "red", "timestamp": "x"})
UBI_EVENT = json.dumps({"action_name": "click", "query_id": "a", "timestamp": "x"})
ELASTIC = {"event": {"action": "search"}, "session": {"id": "s"}, "search": {"query": "red"}}
COLUMNS = {"user": "who", "time": "when", "query": "what"}
COLUMNS_TO_GIVE = "`columns=user=visitor_id,time=ts,query=search_term`"


def choose(
    tmp_path: Path, *texts: str | bytes, columns: dict[str, str] | None = None, format: str = "auto"
) -> str:
    samples = []
    for number, text in enumerate(texts):
        path = tmp_path / f"log-{number}"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        samples.append(take_sample(path))
    result = choose_format(samples, ReadSettings(format=format, columns=columns))
    assert len(result.reason.split()) > 4
    return result.format.name


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (HEADER + AOL_ROW, "aol"),
        (HEADER.lower() + AOL_ROW, "aol"),
        ("\ufeff" + HEADER + AOL_ROW, "aol"),
        (HEADER, "aol"),
        (AOL_ROW * 3, "aol"),
        (AOL_ROW.replace("\t\t", ""), "aol"),
        ("broken\n" + AOL_ROW * 3, "aol"),
        (EXCITE_ROW, "excite"),
        (EXCITE_ROW.replace("red shoes", "") + EXCITE_ROW * 2, "excite"),
        (UBI_QUERY, "ubi"),
        (UBI_EVENT, "ubi"),
        (json.dumps({"_source": json.loads(UBI_QUERY)}), "ubi"),
        (json.dumps(ELASTIC), "elastic"),
        (
            json.dumps({"event.action": "search", "session.id": "s", "search.query": "red"}),
            "elastic",
        ),
        ('{"user": 1, "time": 2, "query": "red"}', "ndjson"),
        ("user,time,query\n1,2,red\n", "csv"),
        ('"time";"user";"query"\n', "csv"),
        ("user\ttime\tquery\tclick\n", "tsv"),
    ],
)
def test_the_format_is_detected_by_content(tmp_path: Path, text: str, format: str) -> None:
    assert choose(tmp_path, text) == format
    assert choose(tmp_path, gzip.compress(text.encode())) == format


@pytest.mark.parametrize(
    ("text", "format"),
    [("who,when,what\n", "csv"), ("who\twhen\twhat\n", "tsv"), ('{"who": 1}\n', "ndjson")],
)
def test_columns_leave_only_the_kind_of_file_open(tmp_path: Path, text: str, format: str) -> None:
    assert choose(tmp_path, text, columns=COLUMNS) == format


def test_parquet_is_detected_by_its_magic_bytes(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    pl.DataFrame({"user": ["a"]}).write_parquet(path)
    assert choose_format([take_sample(path)], ReadSettings()).format.name == "parquet"


def test_empty_files_are_ignored_unless_all_are_empty(tmp_path: Path) -> None:
    assert choose(tmp_path, "", EXCITE_ROW, "") == "excite"
    with pytest.raises(LogError, match=r"log-0, .*log-1: no rows"):
        choose(tmp_path, "", "")


def test_files_of_two_formats_are_not_mixed(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"log-0 looks like aol and .*log-1 like excite"):
        choose(tmp_path, AOL_ROW, EXCITE_ROW)


@pytest.mark.parametrize("text", ["red shoes\n", "a,b,c\n", '{"a": 1}\n', "1\t2\n", "\n\n"])
def test_unknown_start_asks_for_help(tmp_path: Path, text: str) -> None:
    with pytest.raises(LogError, match=r"log-0: the format is not recognised .* `columns=user="):
        choose(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("visitor_id,ts,search_term\n1,2,red\n", COLUMNS_TO_GIVE),
        ('{"visitor_id": 1, "ts": 2, "search_term": "red"}\n', COLUMNS_TO_GIVE),
        (
            "# Site search\n# March\n\n"
            "Visitor ID;Search term;Date and time\n7;red;01.03.2024 10:00:00\n",
            "line 4 looks like a header: Visitor ID, Search term, Date and time.*"
            "`columns=user=Visitor ID,time=Date and time,query=Search term`",
        ),
        (
            "idSite,idVisit,visitorId,actionDetails_0_type\n1,2,3,search\n",
            "Matomo's visits log as a table.*export it as JSON",
        ),
    ],
)
def test_a_refusal_names_what_to_give_instead(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LogError, match=message):
        choose(tmp_path, text)


def test_a_header_of_names_is_not_a_row_of_aol(tmp_path: Path) -> None:
    rows = "7\tred\t2024-03-01 10:00:00\n" * 3
    assert choose(tmp_path, f"User\tQuery\tTime\n{rows}") == "tsv"
    assert choose(tmp_path, rows) == "aol"


@pytest.mark.parametrize(
    ("format", "columns", "message"),
    [
        ("yahoo", None, "format 'yahoo' is unknown; choose auto, access, algolia, aol"),
        ("aol", COLUMNS, "`columns` goes with .*; aol has columns of its own"),
        ("csv", {"user": "who"}, "`columns` lacks time, query; write user="),
        ("csv", {}, "`columns` lacks user, time, query; write user="),
        ("csv", COLUMNS | {"query": ""}, "`columns` lacks query; write user="),
        ("auto", COLUMNS | {"page": "p", "rank": "r"}, "`columns` has no field page, rank; write"),
    ],
)
def test_wrong_choices_are_refused(
    format: str, columns: dict[str, str] | None, message: str
) -> None:
    with pytest.raises(LogError, match=message):
        check_settings(ReadSettings(format=format, columns=columns))


TEN = datetime(2025, 2, 18, 10)


def find_re(engine: Engine, queries: Frame, clicks: Frame) -> Frame:
    return queries.filter(nw.col("query") == "re")


@pytest.mark.parametrize("name", ["polars", "duckdb"])
def test_clicks_follow_their_query_and_what_is_left_out_is_named(tmp_path: Path, name: str) -> None:
    rows = [
        (None, None, None, "x", 1, "a", "log", 1),
        ("u", TEN, "re", None, 2, None, "log", 2),
        ("u", TEN, "red", None, 3, "a", "log", 3),
        (None, None, None, "x", 4, "b", "log", 4),
    ]
    schema: dict[str, pl.DataType] = dict.fromkeys(STAGED_COLUMNS, pl.String())
    frame = pl.DataFrame(
        rows,
        schema | {"time": pl.Datetime("us"), "row": pl.Int64(), "line": pl.Int64()},
        orient="row",
    )
    staged, joined = tmp_path / "it's staged", tmp_path / "rows"
    staged.mkdir()
    joined.mkdir()
    frame.write_parquet(staged / "part-00000.parquet")
    engine = open_engine(name, tmp_path / "work")
    done = join_clicks(engine, staged, joined, find_re)
    engine.close()
    assert done.written == 2
    assert done.rejected.select("file", "line", "reason", "excerpt").rows() == [
        ("log", 2, rejects.TYPED_FURTHER, "re"),
        ("log", 4, rejects.UNKNOWN_QUERY, "b"),
    ]
    written = pl.read_parquet(joined)
    assert written.select("query", "click").rows() == [("red", None), ("red", "x")]
    assert written.select("row", "place").rows() == [(1, 3), (2, 1)]


def test_long_texts_are_cut_before_they_are_joined() -> None:
    click = {"line": 1, "query_id": "q" * 9000, "click": "x" * 9000}
    [row] = stage_clicks(pl.DataFrame([click])).rows(named=True)
    assert (len(row["query_id"]), len(row["click"]), row["query"]) == (4000, 4000, None)


FOLDER = Path(next(iter(nextquery.logs.formats.__path__)))


def test_every_format_of_the_folder_is_in_the_table() -> None:
    result = set()
    for file in FOLDER.rglob("*.py"):
        name = ".".join(file.relative_to(FOLDER).with_suffix("").parts)
        module = import_module(f"nextquery.logs.formats.{name}")
        classes = [item for item in vars(module).values() if isinstance(item, type)]
        result |= {
            item for item in classes if issubclass(item, LogFormat) and hasattr(item, "name")
        }
    assert {type(item) for item in FORMATS.values()} == result


def test_help_names_every_format_once() -> None:
    assert sorted(FORMAT_NAMES) == sorted(FORMATS)


def test_chosen_columns_are_looked_for() -> None:
    assert find_columns(Path("log"), COLUMNS, ["what", "when", "who"]) == COLUMNS
    with pytest.raises(LogError, match="log: has no column 'what'; it has who, when: say which"):
        find_columns(Path("log"), COLUMNS, ["who", "when"])


def test_fields_of_chosen_columns() -> None:
    check_columns(COLUMNS)
    check_columns(COLUMNS | {"click": "url"})


SITE_ROWS = [
    ("u1", "2024-03-01 10:00:00", "red shoes", "shop", 1),
    ("u1", "2024-03-01 10:01:00", "search", "shop", 2),
    ("u2", "2024-03-01 10:02:00", "staff rota", "intranet", 1),
    ("u3", "2024-03-01 10:03:00", 'a "b" c', " shop ", 1),
    ("u4", "2024-03-01 10:04:00", "no site", "", 1),
]
NAMES = ("user", "time", "query", "site", "page")


def _write(folder: Path, kind: str) -> Path:
    file = folder / f"log.{kind}"
    table = pl.DataFrame(SITE_ROWS, NAMES, orient="row")
    match kind:
        case "csv":
            table.write_csv(file)
        case "tsv":
            lines = ["\t".join(map(str, row)) for row in (NAMES, *SITE_ROWS)]
            file.write_text("\n".join(lines) + "\n")
        case "ndjson":
            rows = [dict(zip(NAMES, row, strict=True)) for row in SITE_ROWS]
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        case "parquet":
            table.write_parquet(file)
        case "xlsx":
            file.write_bytes(
                workbook([["Site search, March"], [], [*NAMES], *map(list, SITE_ROWS)])
            )
    return file


@pytest.mark.parametrize("kind", ["csv", "tsv", "ndjson", "parquet", "xlsx"])
@pytest.mark.parametrize(
    ("where", "taken"),
    [
        (["site=shop"], ["red shoes", "search", 'a "b" c']),
        (["site!=intranet"], ["red shoes", "search", 'a "b" c', "no site"]),
        (["site=shop", "query!=search"], ["red shoes", 'a "b" c']),
        (["site="], ["no site"]),
        (["page=2"], ["search"]),
    ],
)
def test_rows_are_taken_by_a_column(
    tmp_path: Path, kind: str, where: list[str], taken: list[str]
) -> None:
    result, rows = read_rows([_write(tmp_path, kind)], tmp_path / "work", where=tuple(where))
    assert rows["query"].to_list() == taken
    assert result.reasons["left out by `where`"] == len(SITE_ROWS) - len(taken)


@pytest.mark.parametrize("kind", ["csv", "tsv", "ndjson", "parquet", "xlsx"])
def test_an_unknown_column_is_named_with_those_there_are(tmp_path: Path, kind: str) -> None:
    settings = ReadSettings(where=("shop=1",))
    with pytest.raises(LogError, match=r"`where` names the column 'shop'; it has .*site"):
        read_logs([_write(tmp_path, kind)], settings, tmp_path / "work")


def test_what_is_not_a_condition_or_has_no_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`where` site: write column=value or column!=value"):
        ReadSettings(where=("site",))
    (tmp_path / "log").write_text("u1\t970916001949\tred shoes\n" * 3)
    with pytest.raises(LogError, match=r"`where` goes with parquet, .*, not with excite"):
        read_logs([tmp_path / "log"], ReadSettings(where=("a=b",)), tmp_path / "work")


def test_a_data_folder_remembers_its_conditions(tmp_path: Path) -> None:
    rows = [f"u{n % 3}\tshoes {n}\t2006-03-01 10:0{n}:00\t1\thttp://a\n" for n in range(6)]
    rows += [f"u1\tsearch\t2006-03-01 10:0{n}:00\n" for n in range(6)]
    (tmp_path / "log.tsv").write_text(HEADER + "".join(rows))
    read = ReadSettings(where=("Query!=search",))
    cuts = "2006-04-01,2006-04-02,2006-04-03"
    settings = PrepareSettings(read, min_users=1, spelling=False, split_at=cuts)
    entries = prepare([tmp_path / "log.tsv"], tmp_path / "data", settings)
    assert entries["counts"]["rejected"] == {"left out by `where`": 6}
    data = PreparedData(tmp_path / "data")
    assert recorded_settings(data, with_recogniser=False).read.where == ("Query!=search",)


APACHE = '192.0.2.9 - jane [01/Mar/2006:08:17:12 +0100] "GET /s?q=red+shoes HTTP/1.1" 200 512'
NGINX = (
    APACHE.replace("jane", "-") + ' "https://a.example/?q=other" "Mozilla/5.0 (X11; \\"Linux\\")"'
)


def parse(*texts: str) -> ParsedRows:
    return parse_texts(AccessLayout("q"), *texts)


def request(target: str, status: int = 200) -> str:
    return APACHE.replace("/s?q=red+shoes", target).replace(" 200 ", f" {status} ")


def test_a_search_is_a_row_with_host_agent_time_and_query() -> None:
    rows = parse(APACHE, NGINX).accepted.select("user", "time", "query", "click").rows()
    moment = datetime(2006, 3, 1, 7, 17, 12)
    assert rows == [
        ("192.0.2.9", moment, "red shoes", None),
        ('192.0.2.9 Mozilla/5.0 (X11; \\"Linux\\")', moment, "red shoes", None),
    ]


@pytest.mark.parametrize(
    ("target", "parameter", "query"),
    [
        ("/s?page=2&q=caf%C3%A9+au%20lait", "q", "café au lait"),
        ("/s?q=a%2Bb%26c&x=1", "q", "a+b&c"),
        ("https://shop.example/s?lang=de;q=rot", "q", "rot"),
        ("/s?search.text=red&q=blue", "search.text", "red"),
    ],
)
def test_the_named_parameter_is_decoded(target: str, parameter: str, query: str) -> None:
    result = parse_texts(AccessLayout(parameter), request(target))
    assert result.accepted["query"].to_list() == [query]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (request("/style.css"), rejects.NOT_A_SEARCH),
        (request("/s?xq=red"), rejects.NOT_A_SEARCH),
        (request("/s?q=red", 404), rejects.NOT_A_SEARCH),
        (request("/s?q="), rejects.EMPTY_QUERY),
        (request("/s?q=r%00d"), rejects.NUL_BYTE),
        (APACHE.replace("Mar", "Foo"), "time not understood"),
        ("red shoes", rejects.NOT_A_REQUEST),
        ("", rejects.EMPTY_LINE),
    ],
)
def test_every_fault_of_a_request_has_its_reason(text: str, reason: str) -> None:
    assert parse(text).rejected["reason"].to_list() == [reason]


def test_recognised_by_most_lines() -> None:
    def recognised(*lines: str, **choices: Any) -> bool:
        sample = Sample(Path("log"), lines)
        return AccessFormat().recognise(sample, ReadSettings(**choices)) is not None

    assert recognised(APACHE, NGINX, "broken")
    assert not recognised(APACHE, "broken")
    assert not recognised(APACHE, columns={"user": "1", "time": "2", "query": "3"})


def test_a_parameter_of_another_format_is_refused() -> None:
    with pytest.raises(LogError, match="`parameter` goes with access; aol has no addresses"):
        check_settings(ReadSettings("aol", parameter="q"))
    check_settings(ReadSettings("access", parameter="q"))


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text("\n".join([APACHE, request("/style.css"), NGINX]))
    result = read_logs([tmp_path / "access.log"], ReadSettings(), tmp_path / "work")
    assert (result.format, result.rows_accepted) == ("access", 2)
    assert result.reasons == {rejects.NOT_A_SEARCH: 1}


def test_escapes_that_are_not_utf_8_need_their_encoding() -> None:
    lines = request("/s?q=caf%E9"), APACHE
    rejected = parse(*lines).rejected
    assert rejected.select("line", "reason").rows() == [(1, rejects.MALFORMED_TEXT)]
    result = parse_texts(AccessLayout("q", "cp1252"), *lines)
    assert result.accepted["query"].to_list() == ["caf\u00e9", "red shoes"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252", "ascii"])
def test_escapes_in_no_known_encoding_are_rejected(encoding: str) -> None:
    parsed = parse_texts(AccessLayout("q", encoding), request("/s?q=%81%8D"))
    assert parsed.rejected["reason"].to_list() == [rejects.MALFORMED_TEXT]
