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
    lines_without,
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


def test_the_lines_of_a_visitor_can_be_left_out() -> None:
    lines = [line for event in EVENTS for _, line in to_lines(event)]
    other = lines[0].replace(b"visitor-1", b"visitor-2")
    assert list(lines_without([*lines, other], frozenset({"visitor-1"}))) == [other]
    assert list(lines_without([b'{"client_id": []}'], frozenset({"x"}))) == [b'{"client_id": []}']


@pytest.mark.parametrize("name", ["lists-2026-13-01.ndjson", "other-2026-05-01.ndjson", "events-"])
def test_other_files_have_no_day(name: str) -> None:
    assert day_of(name) is None
