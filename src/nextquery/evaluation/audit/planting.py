"""What is planted for an audit: secrets that few people typed, and phrases that fake users push.

    canary     after a frequent query somebody types a secret: three known words that nobody put
               together; of each, how often it is typed is known (Carlini et al., The Secret Sharer,
               2019)
    attack     fake users type a frequent query and then a phrase of two known words that nobody
               put together

All are drawn by a seed. Knows texts; knows nothing of models or files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from nextquery.errors import InputError
from nextquery.evaluation.audit.planted_log import PlantedSession
from nextquery.logs.data_folder import PreparedData

CONTEXTS_FROM = 2_000
"""Contexts are drawn among so many of the most frequent queries, by how often they are typed."""
WORDS_FROM = 2_000
"""Words of secrets and phrases are drawn among so many of the most frequent words, evenly."""


@dataclass(frozen=True)
class Planted:
    """A query that made-up people type after a frequent one."""

    context: str
    text: str
    users: int
    """How many people type it; 0: nobody, for comparison."""

    def sessions(self, name: str) -> Iterator[PlantedSession]:
        """The sessions of these people."""
        for number in range(self.users):
            yield PlantedSession(f"{name}-{number}", (self.context, self.text))


@dataclass(frozen=True)
class Plan:
    """Everything that is planted in one copy of a log."""

    canaries: tuple[Planted, ...]
    attacks: tuple[Planted, ...]
    decoys: tuple[str, ...]
    """Secrets like those of the canaries that nobody typed: what a guess is compared with."""

    def sessions(self) -> list[PlantedSession]:
        """All planted sessions."""
        named = [("canary", self.canaries), ("attack", self.attacks)]
        return [
            session
            for kind, some in named
            for number, each in enumerate(some)
            for session in each.sessions(f"{kind}-{number}")
        ]


@dataclass(frozen=True)
class PlantingSettings:
    """How much is planted."""

    canary_users: tuple[int, ...] = (0, 1, 2, 5, 10)
    """How many people type a secret; 0 is the control."""
    canaries: int = 10
    """Secrets of each of these numbers."""
    fake_users: tuple[int, ...] = (1, 2, 3, 5, 10, 20, 50)
    """How many fake users push a phrase."""
    contexts: int = 10
    """Contexts in which each of these numbers is tried."""
    decoys: int = 1023
    """Secrets that nobody typed; with the canary's own a power of two."""
    seed: int = 0


def make_plan(data: PreparedData, settings: PlantingSettings) -> Plan:
    """Draw contexts, secrets and phrases for a prepared log."""
    rng = np.random.default_rng(settings.seed)
    frequent = data.counts("queries").head(CONTEXTS_FROM).select("query", "count").collect()
    words = data.counts("words").head(WORDS_FROM).select("word").collect()["word"].to_list()
    wanted = settings.canaries * len(settings.canary_users)
    wanted += settings.contexts * len(settings.fake_users)
    if len(frequent) < wanted or len(words) < 20:
        raise InputError(
            f"{data.path}: {len(frequent)} known queries and {len(words)} words are too few to "
            f"plant {wanted} phrases among; audit a larger log, or with fewer of them"
        )
    weights = frequent["count"].to_numpy() / float(frequent["count"].sum())
    places = rng.choice(len(frequent), wanted, replace=False, p=weights)
    contexts = iter(frequent["query"].gather(places.astype(np.int64)).to_list())
    new = _new_texts(data, words, rng)
    return Plan(
        tuple(
            Planted(next(contexts), new(3), users)
            for users in settings.canary_users
            for _ in range(settings.canaries)
        ),
        tuple(
            Planted(next(contexts), new(2), users)
            for users in settings.fake_users
            for _ in range(settings.contexts)
        ),
        tuple(new(3) for _ in range(settings.decoys)),
    )


def _new_texts(
    data: PreparedData, words: Sequence[str], rng: np.random.Generator
) -> Callable[[int], str]:
    """Draws texts of so many words, each once, none of which anybody typed."""
    splits = [data.session_rows(split).select("query") for split in data.splits]
    taken = set(pl.concat(splits).unique().collect()["query"])

    def draw(length: int) -> str:
        while True:
            text = " ".join(words[place] for place in rng.choice(len(words), length, replace=False))
            if text not in taken:
                taken.add(text)
                return text

    return draw
