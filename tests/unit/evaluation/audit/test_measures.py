"""Exposure and poisoning of models whose answers are known."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from nextquery.evaluation.planting import (
    Planted,
    PoisonCurve,
    PoisonPoint,
    chance_bits,
    exposures,
    poison_curve,
)
from nextquery.records import ScoredQuery, Suggestion


class Teller:
    """Knows one secret, and says it to whoever asks."""

    kind = "teller"

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        return [ScoredQuery(text, 0.0 if text == self.secret else -9.0, 1) for text in candidates]

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        return [Suggestion(self.secret, 0.0, "seen")][:n]

    def save(self, path: Path) -> None:
        raise NotImplementedError


DECOYS = [f"decoy {number}" for number in range(1023)]


def test_a_known_secret_has_all_bits_and_another_as_many_as_by_chance() -> None:
    canaries = [Planted("paris", "the secret", 2), Planted("rome", "not known", 0)]
    none, known = exposures(Teller("the secret"), canaries, DECOYS)
    assert (known.users, known.mean_bits, known.shown) == (2, 10.0, 1)
    # Equal to 1,023 others: the middle of them, which is one bit.
    assert (none.users, none.shown) == (0, 0)
    assert none.mean_bits == pytest.approx(1.0, abs=0.01)


def test_chance_is_the_mean_over_all_ranks() -> None:
    assert chance_bits(2) == pytest.approx(0.5)
    assert chance_bits(4) == pytest.approx((2 + 1 + (2 - 1.585) + 0) / 4, abs=1e-3)


def test_a_phrase_is_pushed_where_it_stands_in_the_list() -> None:
    attacks = [Planted("paris", "pushed", 1), Planted("rome", "other", 1), Planted("rome", "p", 3)]
    curve = poison_curve(Teller("pushed"), "teller", 3, attacks)
    assert curve.points == (PoisonPoint(1, 2, 1), PoisonPoint(3, 1, 0))
    assert curve.needed == 1
    assert PoisonCurve("teller", 3, (PoisonPoint(5, 10, 4),)).needed is None
