"""A mixture of probabilities whose weights depend on which members have something to say.

    P(q | session) = sum over members of w(member, who speaks) P_member(q | session)

A count model that never saw the last query has no candidates and gives every query its prior: that
says nothing about this session, so the others' weights must be larger there. Each combination of
members that speak is a row of weights of its own. After no session nothing is learnt: there, in the
last row, all weigh the same. Knows numbers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STEPS = 100
CASES_OF_ALL = 20.0
"""A row of weights begins as what suits all cases, counted as so many cases of its own."""


@dataclass(frozen=True)
class Mixture:
    """The weights of a mixture, whose first member always speaks."""

    weights: Floats
    """(rows, members): a row for each combination of further members, and one for no session."""

    @classmethod
    def of(cls, learnt: Floats) -> "Mixture":
        """The mixture of learnt rows, with that of no session behind them."""
        members = learnt.shape[1]
        return cls(np.concatenate([learnt, np.full((1, members), 1.0 / members)]))

    def row(self, queries: Sequence[str], speaks: Sequence[bool]) -> int:
        """The row of a session in which these of the further members have candidates.

        >>> mixture = Mixture.of(np.full((4, 3), 1 / 3))
        >>> mixture.row(["a"], [True, False]), mixture.row(["a"], [True, True])
        (1, 3)
        >>> mixture.row([], [True, False])
        4
        """
        if not queries:
            return len(self.weights) - 1
        return sum(1 << place for place, each in enumerate(speaks) if each)

    def log(self, row: int, logs: Floats) -> Floats:
        """The mixture's log-probabilities (n,) from those of the members (members, n).

        >>> mixture = Mixture(np.array([[0.9, 0.1], [0.5, 0.5]]))
        >>> np.exp(mixture.log(1, np.log([[0.1], [0.3]]))).round(3)
        array([0.2])
        """
        with np.errstate(divide="ignore"):  # a member without weight
            weighted = np.log(self.weights[row])[:, None] + logs
        return np.asarray(np.logaddexp.reduce(weighted, axis=0))


def fit_mixture(rows: Integers, logs: Floats) -> Mixture:
    """The weights that make what came next likeliest, by expectation maximisation.

    `rows` (cases,) says who spoke, `logs` (cases, members) how likely each member held what came
    next. Cases of all rows together give the weights that each row begins with.
    """
    members = logs.shape[1]
    common = _maximised(logs, np.full(members, 1.0 / members), 0.0)
    found = [
        _maximised(logs[rows == row], common, CASES_OF_ALL) for row in range(1 << (members - 1))
    ]
    return Mixture.of(np.array(found))


def _maximised(logs: Floats, start: Floats, prior_cases: float) -> Floats:
    """The weights (members,) of some cases, `start` counting as `prior_cases` of them."""
    if not len(logs) and not prior_cases:
        return start
    weights = start
    for _ in range(STEPS):
        with np.errstate(divide="ignore"):
            joint = np.log(weights) + logs
        shares = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
        weights = (shares.sum(axis=0) + prior_cases * start) / (len(logs) + prior_cases)
    return weights
