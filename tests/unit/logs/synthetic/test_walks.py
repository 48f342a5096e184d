"""The hidden intent shows where it should: in signals and outcomes, not in bare entities."""

import polars as pl
import pytest

from nextquery.logs.synthetic.queries import (
    INTENTS,
    Draws,
    Hidden,
    Role,
    draw_queries,
    draw_sessions,
    load_lexicon,
)


@pytest.fixture(scope="module")
def walks() -> tuple[Hidden, pl.DataFrame]:
    draws, lexicon = Draws(1), load_lexicon()
    hidden = draw_sessions(draws, len(lexicon.domains), 5000)
    queries = draw_queries(draws, lexicon, hidden)
    own = pl.Series(hidden.domain * INTENTS + hidden.intent).gather(queries["session"])
    return hidden, queries.with_columns(own=own)


def test_every_session_has_queries_in_order(walks: tuple[Hidden, pl.DataFrame]) -> None:
    hidden, queries = walks
    assert queries["session"].is_sorted()
    assert queries["session"].n_unique() == len(hidden.user) == 5000


def test_most_signals_and_outcomes_are_of_the_session_s_intent(
    walks: tuple[Hidden, pl.DataFrame],
) -> None:
    _, queries = walks
    for role, share in [(Role.SIGNAL, 0.85), (Role.OUTCOME, 0.94)]:
        typed = queries.filter(pl.col("role") == role)
        own = (typed["intent"] == typed["own"]).mean()
        # The rest is drawn from all four intents of the domain, the own one among them.
        assert own == pytest.approx(share + (1 - share) / INTENTS, abs=0.02)


def test_bare_entities_say_nothing_of_the_intent(walks: tuple[Hidden, pl.DataFrame]) -> None:
    _, queries = walks
    bare = queries.filter(pl.col("role") == Role.ENTITY)
    assert (bare["intent"] == -1).all()
    assert (bare.select("second", "third") == 0).select(pl.all().all()).row(0) == (True, True)
