"""The lines of the feedback files, in the format of OpenSearch's User Behavior Insights (UBI) 1.3.

    queries-DAY.ndjson    one line per list that a visitor was shown (`ShownList`)
    events-DAY.ndjson     what became of it: shown, clicked, dismissed
    lists-DAY.ndjson      one line per list that the service made (`ServedList`), shown or not, and
                          one per list that a model in the shadow made for nobody (`ShadowList`)

`client_id` is the visitor's pseudonym in every line of every file, and `owner` the API key that it
belongs to: whoever must be forgotten is found by them (`is_line_of`). `query_id` names the list in
all of them. A line that was erased is `{}` and spaces.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

APPLICATION = "nextquery"
QUERIES, EVENTS, LISTS = "queries", "events", "lists"
TABLES = (QUERIES, EVENTS, LISTS)
Source = Literal["seen", "synthetic"]


@dataclass(frozen=True, slots=True)
class ListedSuggestion:
    """One place of a list, and which model put it there."""

    text: str
    source: Source
    model: str
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Arm:
    """A model of a trial under its name; the version changes when another is loaded."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The comparison that a list took part in."""

    kind: Literal["interleave", "split"]
    arms: tuple[Arm, ...]
    arm: str = ""
    """Of a split, the arm that the session belongs to, even where the fallback answered for it."""


@dataclass(frozen=True, slots=True)
class FeedbackEvent:
    """Base of all lines: which list, whose, when, after which query."""

    action: ClassVar[str]
    """The `action_name` of its line."""
    query_id: str
    client_id: str
    time: datetime
    query: str
    origin: str = ""
    """Where it came from: a hash so short that many addresses share it."""
    owner: str = ""
    """The name of the API key that sent it, empty where no keys are used."""


@dataclass(frozen=True, slots=True)
class ShownList(FeedbackEvent):
    """A visitor was shown a list."""

    action = "suggestions_shown"
    suggestions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TakenSuggestion(FeedbackEvent):
    """A visitor took a suggestion; positions count from 1."""

    action = "suggestion_clicked"
    suggestion: str = ""
    position: int = 1


@dataclass(frozen=True, slots=True)
class DismissedList(FeedbackEvent):
    """A visitor closed a list without taking anything."""

    action = "suggestions_dismissed"


@dataclass(frozen=True, slots=True)
class ServedList(FeedbackEvent):
    """The service made a list: by which model, after which session, in which trial."""

    action = "suggestions_served"
    context: tuple[str, ...] = ()
    """The earlier queries of the session, oldest first, without `query`."""
    model: str = ""
    version: str = ""
    fallback: bool = False
    suggestions: tuple[ListedSuggestion, ...] = ()
    trial: Trial | None = None


@dataclass(frozen=True, slots=True)
class ShadowList(FeedbackEvent):
    """What a model in the shadow would have shown instead."""

    action = "suggestions_shadowed"
    model: str = ""
    version: str = ""
    suggestions: tuple[ListedSuggestion, ...] = ()


def file_name(table: str, moment: datetime) -> str:
    """The file of a day.

    >>> file_name(EVENTS, datetime(2026, 5, 1, 12, tzinfo=UTC))
    'events-2026-05-01.ndjson'
    """
    return f"{table}-{moment:%Y-%m-%d}.ndjson"


def day_of(name: str) -> str | None:
    """The day of a feedback file by its name, None of any other file.

    >>> day_of("lists-2026-05-01.ndjson"), day_of("notes.txt")
    ('2026-05-01', None)
    """
    table, _, rest = name.partition("-")
    day = rest.removesuffix(".ndjson")
    if table not in TABLES or day == rest:
        return None
    try:
        return datetime.strptime(day, "%Y-%m-%d").strftime("%Y-%m-%d")
    except ValueError:
        return None


def feedback_files(folder: Path) -> list[Path]:
    """The files of a feedback folder, of all days and tables, by name."""
    return sorted(path for path in folder.iterdir() if day_of(path.name) and path.is_file())


def source_of(source: str) -> Source:
    """The word for where a suggestion comes from, of the sentence that models say.

    >>> source_of("seen in the log (5 times)"), source_of("synthetic")
    ('seen', 'synthetic')
    """
    return "synthetic" if source.startswith("synthetic") else "seen"


def to_lines(event: FeedbackEvent) -> Iterator[tuple[str, bytes]]:
    """The lines of an event, each with the table that it belongs to."""
    common: dict[str, Any] = {
        "application": APPLICATION,
        "query_id": event.query_id,
        "client_id": event.client_id,
        "timestamp": event.time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    if event.owner:
        common["owner"] = event.owner
    if event.origin:
        common["origin"] = event.origin
    if isinstance(event, ShownList):
        query_fields = {
            "user_query": event.query,
            "query_response_hit_ids": list(event.suggestions),
        }
        yield QUERIES, _line(common | query_fields)
    table = LISTS if isinstance(event, ServedList | ShadowList) else EVENTS
    yield table, _line(common | _described(event))


def _described(event: FeedbackEvent) -> dict[str, Any]:
    described: dict[str, Any] = {
        "action_name": event.action,
        "message_type": "SUGGESTION",
        "user_query": event.query,
    }
    if isinstance(event, TakenSuggestion):
        described["message"] = event.suggestion
        described["event_attributes"] = {
            "object": {"object_id": event.suggestion, "object_id_field": "suggestion"},
            "position": {"ordinal": event.position},
        }
    elif isinstance(event, ServedList | ShadowList):
        attributes: dict[str, Any] = {
            "model": event.model,
            "version": event.version,
            "suggestions": [
                {
                    "text": suggestion.text,
                    "source": suggestion.source,
                    "model": suggestion.model,
                    "score": suggestion.score,
                }
                for suggestion in event.suggestions
            ],
        }
        if isinstance(event, ServedList):
            attributes |= {"context": list(event.context), "fallback": event.fallback}
            if (trial := event.trial) is not None:
                arms = {arm.name: arm.version for arm in trial.arms}
                attributes["trial"] = {"kind": trial.kind, "arms": arms, "arm": trial.arm}
        described["event_attributes"] = attributes
    return described


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def parse_line(line: bytes) -> FeedbackEvent | None:
    """The event of a line; None for what is not our feedback, ValueError for what is broken.

    The query's own line says when a list was shown, so the event next to it is skipped.
    """
    try:
        record = json.loads(line)
        if not isinstance(record, dict) or record.get("application") != APPLICATION:
            return None
        return _parsed(record)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueError(f"not a line of feedback ({type(error).__name__})") from None


def _parsed(record: Mapping[str, Any]) -> FeedbackEvent | None:
    common: dict[str, Any] = {
        "query_id": _text(record["query_id"]),
        "client_id": _text(record["client_id"]),
        "time": datetime.fromisoformat(record["timestamp"]).astimezone(UTC),
        "query": _text(record["user_query"]),
        "origin": _text(record.get("origin", "")),
        "owner": _text(record.get("owner", "")),
    }
    attributes = record.get("event_attributes") or {}
    match record.get("action_name"):
        case None:
            return ShownList(**common, suggestions=_texts(record["query_response_hit_ids"]))
        case "suggestion_clicked":
            suggestion = _text(attributes["object"]["object_id"])
            position = int(attributes["position"]["ordinal"])
            return TakenSuggestion(**common, suggestion=suggestion, position=position)
        case "suggestions_dismissed":
            return DismissedList(**common)
        case "suggestions_served":
            return ServedList(
                **common,
                **_list_fields(attributes),
                context=_texts(attributes["context"]),
                fallback=bool(attributes["fallback"]),
                trial=_trial(attributes.get("trial")),
            )
        case "suggestions_shadowed":
            return ShadowList(**common, **_list_fields(attributes))
    return None


def _list_fields(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": _text(attributes["model"]),
        "version": _text(attributes["version"]),
        "suggestions": tuple(
            ListedSuggestion(
                _text(item["text"]),
                source_of(item["source"]),
                _text(item["model"]),
                float(item["score"]),
            )
            for item in attributes["suggestions"]
        ),
    }


def _trial(fields: Mapping[str, Any] | None) -> Trial | None:
    if fields is None:
        return None
    if fields["kind"] not in ("interleave", "split"):
        raise ValueError("no such kind of trial")
    arms = tuple(Arm(_text(name), _text(version)) for name, version in fields["arms"].items())
    return Trial(fields["kind"], arms, _text(fields.get("arm", "")))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(map(_text, values))


def is_line_of(line: bytes, client_id: str, owner: str = "") -> bool:
    """Whether a line must go when a visitor of a key is forgotten; without keys `owner` is empty.

    Lines without an owner (recorded without keys) are anybody's. A line that cannot be read, or has
    no pseudonym where one belongs, goes if the visitor's is anywhere in it.

    >>> line = b'{"client_id": "visitor-1", "owner": "shop"}'
    >>> is_line_of(line, "visitor-1", "shop"), is_line_of(line, "visitor-1", "news")
    (True, False)
    >>> is_line_of(b'{"client_id": "visitor-1", "user_qu', "visitor-1")
    True
    """
    name = client_id.encode()
    # Whole, or cut off by the end of the line or by another line that follows on it.
    if not (b'"%b"' % name in line or b'"%b{' % name in line or line.endswith(b'"%b' % name)):
        return False
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return True
    visitor = record.get("client_id") if isinstance(record, dict) else None
    if not isinstance(visitor, str):
        return True
    whose = record.get("owner")
    return visitor == client_id and (not owner or not isinstance(whose, str) or whose == owner)
