"""Feedback sent in masses by one visitor, address or key: how much of it counts, and is taken."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from promises.rows import Row

if TYPE_CHECKING:
    from nextquery.feedback.events import FeedbackEvent

Sender = Callable[[int], tuple[str, str]]
"""Visitor and origin of a list by its number."""

AREA = "service"
_START = datetime(2026, 5, 1, tzinfo=UTC)
_KEYS = ("the flooder's key", "another's key")


def floods_count_little(quick: bool) -> Row:
    """Lists shown and taken without end; what a report or a re-ranker sees of them."""
    from nextquery.feedback.impressions import join_events
    from nextquery.feedback.settings import Bounds

    number = 2_500 if quick else 20_000
    usual = Bounds()
    floods: dict[str, tuple[Sender, int]] = {
        "one visitor": (lambda n: ("robot", f"{n:04x}"[-4:]), usual.per_visitor),
        "one address or key, visitors without end": (lambda n: (f"v{n}", "00aa"), usual.per_origin),
        "one visitor from one address": (lambda n: ("robot", "00aa"), usual.per_visitor),
    }
    held = broken = 0
    for who, bound in floods.values():
        people = [event for n in range(20) for event in _taken(n, f"person{n}", f"0{n:03x}")]
        events = [*people, *(e for n in range(number) for e in _taken(1000 + n, *who(n)))]
        counted = len(join_events(events, usual).impressions)
        held += 20 <= counted <= 20 + bound
        broken += len(join_events(events, Bounds(0, 0)).impressions) == 20 + number
    promise = "a flood of feedback counts as its bound at most, and hides nobody's"
    note = f"{number:,} lists a day each; at most {usual.per_visitor} of a visitor, "
    note += f"{usual.per_origin:,} of an address or key"
    return Row(AREA, promise, len(floods), held, "no bounds", broken, note)


def _taken(number: int, visitor: str, origin: str) -> "Iterator[FeedbackEvent]":
    from nextquery.feedback.events import ListedSuggestion, ServedList, ShownList, TakenSuggestion

    at = _START + timedelta(seconds=number)
    who = (f"list-{number}", visitor, at, "paris", origin)
    listed = (ListedSuggestion("pushed", "seen", "m"),)
    yield ServedList(*who, model="m", version="1", suggestions=listed)
    yield ShownList(*who, suggestions=("pushed",))
    yield TakenSuggestion(*who, suggestion="pushed", position=1)


def floods_are_refused(quick: bool) -> Row:
    """Feedback of one key faster than its rate: refused, while another key's is taken."""
    number = 100 if quick else 2_000
    with tempfile.TemporaryDirectory() as folder:
        taken, other = _posted(Path(folder, "a"), number, rate=1.0)
        free, _ = _posted(Path(folder, "b"), number, rate=0.0)
    held = int(taken < number / 2 and other == 204)
    promise = "feedback of one key beyond its rate is refused, another key's is not"
    note = f"{taken} of {number:,} taken at a rate of 1 a second"
    return Row(AREA, promise, 1, held, "no rate", int(free == number), note)


def _posted(folder: Path, number: int, rate: float) -> tuple[int, int]:
    """How many events of one key were taken, and the answer to one of another."""
    from fastapi.testclient import TestClient

    from nextquery.service.app import build_app
    from nextquery.service.service import build_service
    from nextquery.service.settings import NamedModel, ServiceSettings
    from promises.small_models import sound_models

    folder.mkdir()
    keys = folder / "keys"
    lines = [f"k{n}:{hashlib.sha256(key.encode()).hexdigest()}" for n, key in enumerate(_KEYS)]
    keys.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.chmod(keys, 0o600)  # noqa: PTH101
    model = NamedModel("m", sound_models() / "adjacency")
    settings = ServiceSettings(
        (model,), folder, keys_file=keys, rate_per_second=rate, feedback=folder / "feedback"
    )
    event = {"action": "dismissed", "query_id": "q", "client_id": "robot", "query": "paris"}
    with TestClient(build_app(build_service(settings))) as client:

        def post(key: str) -> int:
            return client.post("/v1/feedback", json=event, headers={"X-API-Key": key}).status_code

        taken = sum(post(_KEYS[0]) == 204 for _ in range(number))
        return taken, post(_KEYS[1])
