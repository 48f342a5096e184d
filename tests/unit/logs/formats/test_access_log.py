from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.errors import LogError
from nextquery.logs.formats.access_log import AccessFormat, AccessLayout
from nextquery.logs.formats.detection import check_settings
from nextquery.logs.reading import rejects
from nextquery.logs.reading.open import Sample
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.reading.rows import ParsedRows, parse_lines
from nextquery.logs.settings import ReadSettings

APACHE = '192.0.2.9 - jane [01/Mar/2006:08:17:12 +0100] "GET /s?q=red+shoes HTTP/1.1" 200 512'
NGINX = (
    APACHE.replace("jane", "-") + ' "https://a.example/?q=other" "Mozilla/5.0 (X11; \\"Linux\\")"'
)


def parse(*texts: str, parameter: str = "q") -> ParsedRows:
    lines = pl.DataFrame({"line": range(1, len(texts) + 1), "text": list(texts)})
    return parse_lines(AccessLayout(parameter), lines)


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
    ("target", "query"),
    [
        ("/s?page=2&q=caf%C3%A9+au%20lait", "café au lait"),
        ("/s?q=a%2Bb%26c&x=1", "a+b&c"),
        ("https://shop.example/s?lang=de;q=rot", "rot"),
    ],
)
def test_parameters_are_decoded(target: str, query: str) -> None:
    assert parse(request(target)).accepted["query"].to_list() == [query]


def test_another_parameter_can_be_named() -> None:
    found = parse(request("/s?search.text=red&q=blue"), parameter="search.text")
    assert found.accepted["query"].to_list() == ["red"]


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
def test_every_fault_has_its_reason(text: str, reason: str) -> None:
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
    lines = pl.DataFrame({"line": [1, 2], "text": [request("/s?q=caf%E9"), APACHE]})
    rejected = parse_lines(AccessLayout("q"), lines).rejected
    assert rejected.select("line", "reason").rows() == [(1, rejects.MALFORMED_TEXT)]
    found = parse_lines(AccessLayout("q", "cp1252"), lines)
    assert found.accepted["query"].to_list() == ["caf\u00e9", "red shoes"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252", "ascii"])
def test_escapes_in_no_known_encoding_are_rejected(encoding: str) -> None:
    lines = pl.DataFrame({"line": [1], "text": [request("/s?q=%81%8D")]})
    parsed = parse_lines(AccessLayout("q", encoding), lines)
    assert parsed.rejected["reason"].to_list() == [rejects.MALFORMED_TEXT]
