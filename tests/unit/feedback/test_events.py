import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.feedback.events import (
    Arm,
    DismissedList,
    FeedbackEvent,
    ListedSuggestion,
    ServedList,
    ShadowList,
    ShownList,
    TakenSuggestion,
    Trial,
    day_of,
    is_line_of,
    parse_line,
    to_lines,
)

NOON = datetime(2026, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
WHO = ("list-1", "visitor-1", NOON, "red shoes", "a3f1")
PLACES = (
    ListedSuggestion("red boots", "seen", "A", -0.5),
    ListedSuggestion("blue boots", "synthetic", "B", -1.25),
)
TRIAL = Trial("split", (Arm("A", "v1"), Arm("B", "v2")), "B")
EVENTS: list[FeedbackEvent] = [
    ShownList(*WHO, suggestions=("red boots", "blue boots")),
    TakenSuggestion(*WHO, suggestion="red boots", position=1),
    DismissedList(*WHO),
    ServedList(*WHO, context=("shoes",), model="A+B", version="", suggestions=PLACES, trial=TRIAL),
    ShadowList(*WHO, model="C", version="v3", suggestions=PLACES[:1]),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_what_is_written_is_read_back(event: FeedbackEvent) -> None:
    parsed = [parse_line(line) for _, line in to_lines(event)]
    assert [each for each in parsed if each is not None] == [event]


def test_each_line_stands_in_the_file_of_its_table() -> None:
    tables = [[table for table, _ in to_lines(event)] for event in EVENTS]
    assert tables == [["queries", "events"], ["events"], ["events"], ["lists"], ["lists"]]


def test_lines_of_other_applications_are_passed_over() -> None:
    assert parse_line(b'{"application": "shop", "query_id": "1"}') is None
    assert parse_line(b"[1, 2]") is None


@pytest.mark.parametrize(
    "change",
    [
        {"timestamp": "yesterday"},
        {"client_id": 7},
        {"event_attributes": {"object": {}}},
        {"event_attributes": {"object": {"object_id": "x"}, "position": {"ordinal": "first"}}},
    ],
)
def test_a_broken_line_is_a_value_error(change: dict[str, object]) -> None:
    [(_, line)] = to_lines(EVENTS[1])
    with pytest.raises(ValueError, match="not a line of feedback"):
        parse_line(json.dumps(json.loads(line) | change).encode())


GARBAGE: list[object] = [None, True, 7, -0.5, 1e400, "", "x", [], [[]], {}, {"kind": 1}, ["x"]]
VALUES = st.sampled_from(GARBAGE)


@settings(max_examples=60)
@given(VALUES, st.data())
def test_no_altered_line_ends_the_reader(value: object, data: st.DataObject) -> None:
    [(_, line)] = to_lines(EVENTS[3])
    record = json.loads(line)
    where = data.draw(st.sampled_from([record, record["event_attributes"]]))
    where[data.draw(st.sampled_from(sorted(where)))] = value
    try:
        parse_line(json.dumps(record).encode())
    except ValueError:
        return


def test_the_lines_of_a_visitor_are_found() -> None:
    for _, line in (each for event in EVENTS for each in to_lines(event)):
        assert is_line_of(line, "visitor-1")
        assert not is_line_of(line, "visitor")
        assert not is_line_of(line.replace(b"visitor-1", b"visitor-2"), "visitor-1")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"client_id": "bob", "user_query": "ann"}', False),
        (b'{"client_id": "ann", "owner": "shop"}', True),
        (b'{"client_id": "ann", "owner": "news"}', False),
        (b'{"client_id": "ann"}', True),
        (b'{"client_id": "ann", "owner": 5}', True),
        (b'{"client_id": ["ann"]}', True),
        (b'[{"client_id": "ann"}]', True),
        (b'{"client_id": "ann", "user_query": "half a qu', True),
        (b'{"client_id": "ann', True),
        (b'{"client_id": "ann{"application": "nextquery", "client_id": "bob"}', True),
        (b'{"client_id": "anna{"application": "nextquery", "client_id": "bob"}', False),
        (b"[" * 100_000 + b'"ann"', True),
        (b"", False),
    ],
)
def test_what_cannot_be_read_is_of_everybody_whom_it_names(line: bytes, found: bool) -> None:
    assert is_line_of(line, "ann", "shop") == found


@pytest.mark.parametrize("number", ["Infinity", "1e999", "9" * 400 + ".0"])
def test_numbers_beyond_all_bounds_are_broken_lines(number: str) -> None:
    [(_, line)] = to_lines(TakenSuggestion("l", "v", NOON, "q", suggestion="a", position=77))
    with pytest.raises(ValueError, match="OverflowError"):
        parse_line(line.replace(b"77", number.encode()))


def test_times_before_the_first_year_are_broken_lines() -> None:
    [(_, line)] = to_lines(DismissedList("l", "v", NOON, "q"))
    moment = NOON.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()
    with pytest.raises(ValueError, match="OverflowError"):
        parse_line(line.replace(moment, b"0001-01-01T00:00:00+23:59"))


@pytest.mark.parametrize("name", ["lists-2026-13-01.ndjson", "other-2026-05-01.ndjson", "events-"])
def test_other_files_have_no_day(name: str) -> None:
    assert day_of(name) is None
