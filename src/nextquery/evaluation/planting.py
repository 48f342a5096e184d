"""Planted secrets and pushed phrases: copies of a log with extra sessions, and their measures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nextquery.errors import InputError
from nextquery.evaluation.settings import PlantingSettings
from nextquery.evaluation.systems import write_copy
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Suggester


@dataclass(frozen=True)
class PlantedSession:
    """The queries of an invented person."""

    user: str
    queries: tuple[str, ...]


def write_planted(
    data: PreparedData, out: Path, sessions: Sequence[PlantedSession], min_users: int
) -> PreparedData:
    """Publish the folder `out`: that of `data` with the sessions, under a K of `min_users`."""

    def with_planted(split: str, rows: pl.DataFrame) -> pl.DataFrame:
        if split != "background" or not sessions:
            return rows
        return pl.concat([rows, _rows(rows, sessions)])

    return write_copy(data, out, with_planted, min_users, data.counts("clicks"))


def _rows(background: pl.DataFrame, sessions: Sequence[PlantedSession]) -> pl.DataFrame:
    first = int(background["session"].max()) + 1  # type: ignore[arg-type]
    start: Any = background["time"].max()
    planted = pl.DataFrame(
        {
            "session": range(first, first + len(sessions)),
            "user": [session.user for session in sessions],
            "query": [list(session.queries) for session in sessions],
        }
    ).explode("query")
    position = pl.int_range(pl.len()).over("session")
    last = position == pl.len().over("session") - 1
    times = pl.lit(start) - pl.duration(minutes=2) * (pl.len().over("session") - 1 - position)
    rows = planted.with_columns(position=position, time=times, clicks=last)
    return rows.select(pl.col(name).cast(kind) for name, kind in background.schema.items())


CONTEXTS_FROM = 2_000
"""Contexts are drawn among this many of the most frequent queries, by how often they are typed."""
WORDS_FROM = 2_000
"""Words of secrets and phrases are drawn among this many of the most frequent words, evenly."""


@dataclass(frozen=True)
class Planted:
    """A query that invented people type after a frequent one."""

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
            for kind, plants in named
            for number, plant in enumerate(plants)
            for session in plant.sessions(f"{kind}-{number}")
        ]


def make_plan(data: PreparedData, settings: PlantingSettings) -> Plan:
    """Draw contexts, secrets and phrases for a prepared log."""
    rng = np.random.default_rng(settings.seed)
    frequent = data.counts("queries").head(CONTEXTS_FROM).select("query", "count").collect()
    words = data.counts("words").head(WORDS_FROM).select("word").collect()["word"].to_list()
    phrases = settings.canaries * len(settings.canary_users)
    phrases += settings.contexts * len(settings.fake_users)
    if len(frequent) < phrases or len(words) < 20:
        raise InputError(
            f"{data.path}: {len(frequent)} known queries and {len(words)} words are too few to "
            f"plant {phrases} phrases among; audit a larger log, or with fewer of them"
        )
    weights = frequent["count"].to_numpy() / float(frequent["count"].sum())
    indices = rng.choice(len(frequent), phrases, replace=False, p=weights)
    contexts = iter(frequent["query"].gather(indices.astype(np.int64)).to_list())
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
    """Draws texts of a given number of words, each once, none of which anybody typed."""
    splits = [data.session_rows(split).select("query") for split in data.splits]
    known = set(pl.concat(splits).unique().collect()["query"])

    def draw(length: int) -> str:
        while True:
            text = " ".join(words[index] for index in rng.choice(len(words), length, replace=False))
            if text not in known:
                known.add(text)
                return text

    return draw


SHOWN = 20
"""A secret is exposed if it is among this many suggestions."""
FIRST = 5
"""A phrase has been pushed if it is among this many first suggestions."""


@dataclass(frozen=True)
class Exposure:
    """The secrets that `users` people typed."""

    users: int
    secrets: int
    mean_bits: float
    most_bits: float
    shown: int
    """How many are among the first 20 suggestions after their context."""


@dataclass(frozen=True)
class PoisonPoint:
    """The phrases that `users` fake users pushed."""

    fake_users: int
    contexts: int
    pushed: int
    """In how many of the contexts the phrase is among the first five suggestions."""


@dataclass(frozen=True)
class PoisonCurve:
    """How many fake users push a phrase in a model of one kind under one K."""

    kind: str
    min_users: int
    points: tuple[PoisonPoint, ...]

    @property
    def needed(self) -> int | None:
        """The fewest fake users who push a phrase in half of the contexts; None: more."""
        enough = (point.fake_users for point in self.points if 2 * point.pushed >= point.contexts)
        return min(enough, default=None)


def exposure_bits(rank: float, secrets: int) -> float:
    """The exposure of a secret by its rank among all guesses.

    >>> exposure_bits(1, 1024), exposure_bits(512, 1024)
    (10.0, 1.0)
    """
    return float(np.log2(secrets) - np.log2(rank))


def chance_bits(secrets: int) -> float:
    """The mean exposure of secrets that left no trace.

    >>> round(chance_bits(1024), 2)
    1.44
    """
    return float(np.mean(np.log2(secrets) - np.log2(np.arange(1, secrets + 1))))


def exposures(
    model: Suggester, canaries: Sequence[Planted], decoys: Sequence[str]
) -> tuple[Exposure, ...]:
    """The exposure of canaries by how many people typed them, and whether they are shown."""
    by_users: dict[int, list[tuple[float, bool]]] = {}
    for canary in canaries:
        shown = [item.text for item in model.suggest([canary.context], SHOWN)]
        bits = _bits(model, canary, decoys)
        by_users.setdefault(canary.users, []).append((bits, canary.text in shown))
    return tuple(
        Exposure(
            users,
            len(measured),
            float(np.mean([bits for bits, _ in measured])),
            max(bits for bits, _ in measured),
            sum(shown for _, shown in measured),
        )
        for users, measured in sorted(by_users.items())
    )


def _bits(model: Suggester, canary: Planted, decoys: Sequence[str]) -> float:
    scores = model.score([canary.context], [canary.text, *decoys])
    secret, *decoy_scores = (item.log_likelihood for item in scores)
    values = np.array(decoy_scores)
    # Those that score the same come before it half of the time.
    rank = 1 + float((values > secret).sum()) + 0.5 * float((values == secret).sum())
    return exposure_bits(rank, len(scores))


def poison_curve(
    model: Suggester, kind: str, min_users: int, attacks: Sequence[Planted]
) -> PoisonCurve:
    """In how many contexts each number of fake users gets its phrase among the first five."""
    by_users: dict[int, list[bool]] = {}
    for attack in attacks:
        texts = [item.text for item in model.suggest([attack.context], FIRST)]
        by_users.setdefault(attack.users, []).append(attack.text in texts)
    points = tuple(
        PoisonPoint(users, len(pushed), sum(pushed)) for users, pushed in sorted(by_users.items())
    )
    return PoisonCurve(kind, min_users, points)
