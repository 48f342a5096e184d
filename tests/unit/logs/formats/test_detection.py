import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from nextquery.errors import LogError
from nextquery.logs.formats.detection import check_settings, choose_format
from nextquery.logs.reading.open import take_sample
from nextquery.logs.settings import ReadSettings

AOL_HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
AOL_ROW = "7\tred shoes\t2006-03-01 07:17:12\t\t\n"
EXCITE_ROW = "A1\t970916105432\tred shoes\n"
UBI_QUERY = json.dumps({"query_id": "a", "client_id": "u", "user_query": "red", "timestamp": "x"})
UBI_EVENT = json.dumps({"action_name": "click", "query_id": "a", "timestamp": "x"})
ELASTIC = {"event": {"action": "search"}, "session": {"id": "s"}, "search": {"query": "red"}}


COLUMNS = {"user": "who", "time": "when", "query": "what"}


def choose(
    tmp_path: Path, *texts: str | bytes, columns: dict[str, str] | None = None, format: str = "auto"
) -> str:
    samples = []
    for number, text in enumerate(texts):
        path = tmp_path / f"log-{number}"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        samples.append(take_sample(path))
    found = choose_format(samples, ReadSettings(format=format, columns=columns))
    assert len(found.reason.split()) > 4
    return found.format.name


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (AOL_HEADER + AOL_ROW, "aol"),
        (AOL_HEADER.lower() + AOL_ROW, "aol"),
        ("\ufeff" + AOL_HEADER + AOL_ROW, "aol"),
        (AOL_HEADER, "aol"),
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
def test_format_is_told_by_content(tmp_path: Path, text: str, format: str) -> None:
    assert choose(tmp_path, text) == format
    assert choose(tmp_path, gzip.compress(text.encode())) == format


@pytest.mark.parametrize(
    ("text", "format"),
    [("who,when,what\n", "csv"), ("who\twhen\twhat\n", "tsv"), ('{"who": 1}\n', "ndjson")],
)
def test_columns_leave_only_the_kind_of_file_open(tmp_path: Path, text: str, format: str) -> None:
    assert choose(tmp_path, text, columns=COLUMNS) == format


def test_parquet_is_told_by_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    pl.DataFrame({"user": ["a"]}).write_parquet(path)
    assert choose_format([take_sample(path)], ReadSettings()).format.name == "parquet"


def test_queries_and_events_of_ubi_go_together_in_any_order(tmp_path: Path) -> None:
    assert choose(tmp_path, UBI_EVENT, UBI_QUERY) == "ubi"
    assert choose(tmp_path, UBI_QUERY, UBI_EVENT) == "ubi"


def test_empty_files_do_not_speak(tmp_path: Path) -> None:
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


def test_a_header_below_a_preamble_is_named_with_the_columns_to_give(tmp_path: Path) -> None:
    above = "# Site search\n# March\n\n"
    text = f"{above}Visitor ID;Search term;Date and time\n7;red;01.03.2024 10:00:00\n"
    wanted = "`columns=user=Visitor ID,time=Date and time,query=Search term`"
    header = "line 4 looks like a header: Visitor ID, Search term, Date and time"
    with pytest.raises(LogError, match=f"{header}.*{wanted}"):
        choose(tmp_path, text)


def test_a_header_of_names_is_no_row_of_aol(tmp_path: Path) -> None:
    rows = "7\tred\t2024-03-01 10:00:00\n" * 3
    assert choose(tmp_path, f"User\tQuery\tTime\n{rows}") == "tsv"
    assert choose(tmp_path, rows) == "aol"


def test_the_visits_log_of_matomo_as_a_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"Matomo's visits log as a table.*export it as JSON"):
        choose(tmp_path, "idSite,idVisit,visitorId,actionDetails_0_type\n1,2,3,search\n")


def test_a_given_format_is_taken_as_given(tmp_path: Path) -> None:
    assert choose(tmp_path, EXCITE_ROW, format="aol") == "aol"


@pytest.mark.parametrize(
    ("format", "columns", "message"),
    [
        ("yahoo", None, "format 'yahoo' is unknown; choose auto, access, algolia, aol"),
        ("aol", COLUMNS, "`columns` goes with .*; aol has columns of its own"),
        ("csv", {"user": "who"}, "`columns` lacks time, query"),
        ("auto", COLUMNS | {"page": "p"}, "`columns` knows no page"),
    ],
)
def test_wrong_choices_are_refused(
    format: str, columns: dict[str, str] | None, message: str
) -> None:
    with pytest.raises(LogError, match=message):
        check_settings(ReadSettings(format=format, columns=columns))


@pytest.mark.parametrize(
    "text",
    ["visitor_id,ts,search_term\n1,2,red\n", '{"visitor_id": 1, "ts": 2, "search_term": "red"}\n'],
)
def test_likely_columns_are_named(tmp_path: Path, text: str) -> None:
    wanted = r"`columns=user=visitor_id,time=ts,query=search_term`"
    with pytest.raises(LogError, match=wanted):
        choose(tmp_path, text)
