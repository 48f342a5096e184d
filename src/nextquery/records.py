"""The frozen records that packages pass to each other, independent of files and models."""

from dataclasses import dataclass
from typing import Literal

Known = Literal["free", "prefer", "only"]
"""Whether a list has any queries, prefers those of at least K users, or has only those."""


@dataclass(frozen=True, slots=True)
class Session:
    """The normalised queries of one user with no long pause between them, oldest first."""

    id: int
    user: str
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One suggested query: higher `score` is better, `source` says where it comes from.

    What the session adds to the query is `log_likelihood - log_prior`.

    >>> Suggestion("red boots", -0.7, "seen 5 times").text
    'red boots'
    """

    text: str
    score: float
    source: str
    log_likelihood: float | None = None
    """The natural log-likelihood after the session, where the list was made specific."""
    log_prior: float | None = None
    """The same without any session."""
    usefulness: float | None = None
    """P(useful | query, session), where the list was made by it."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A query with its spelling corrected."""

    typed: str
    text: str
    changes: tuple[tuple[str, str], ...]
    """Each word that was changed, and what it became."""


@dataclass(frozen=True, slots=True)
class ScoredQuery:
    """A candidate with its natural-log likelihood given the context.

    `words` counts the predicted symbols, the end of the query included; `unknown` names the words
    that the model does not know and scored as the unknown word.

    >>> scored = ScoredQuery("red boots", -4.2, words=3)
    >>> round(scored.log_likelihood / scored.words, 2)
    -1.4
    """

    text: str
    log_likelihood: float
    words: int
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A word or query and its cosine with what was asked for."""

    text: str
    cosine: float


@dataclass(frozen=True, slots=True)
class QueryWeight:
    """One query of a session: its mean update gate, and its mean weight in the last state."""

    query: str
    update: float
    """How much the session state changed when the query came: 0 discards it, 1 forgets the rest."""
    share: float
    """How much of the state after the last query it still makes up."""
