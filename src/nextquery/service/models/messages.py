"""What a service and the process of its model say to each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextquery.service.models.blocklist_watch import BlocklistState
from nextquery.service.models.questions import Question


@dataclass(frozen=True)
class Opening:
    """What the process is to open."""

    path: Path
    blocklist: Path | None
    cache_size: int


@dataclass(frozen=True)
class Facts:
    """What was opened."""

    kind: str
    version: str
    explains: bool
    specificity: float
    judges_usefulness: bool
    min_users: int


@dataclass(frozen=True)
class Batch:
    """Questions of one group, to be answered together."""

    questions: tuple[Question[Any], ...]


@dataclass(frozen=True)
class GiveUp:
    """Nobody waits for the present batch any more. There is no reply of its own."""


@dataclass(frozen=True)
class GivenUp:
    """The batch was given up."""


@dataclass(frozen=True)
class Check:
    """A sign of life is asked for: an empty reply."""


@dataclass(frozen=True)
class Reply:
    """The answers to a batch, and the engine's state and counts since it was opened."""

    answers: list[Any]
    blocklist: BlocklistState
    blocked: Mapping[str, int]
    states_found: int
    states_missed: int


@dataclass(frozen=True)
class Failure:
    """An error that the engine raised: a type and places, never a message, which may quote."""

    error: str
    places: tuple[str, ...]
