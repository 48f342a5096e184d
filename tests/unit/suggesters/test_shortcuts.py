from math import exp, log
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.shortcuts import Shortcuts, ShortcutsSettings

SESSIONS = [
    ("ann", ["paris trip", "paris hotels"]),
    ("bob", ["paris", "paris hotels"]),
    ("cat", ["paris", "eiffel tower"]),
    ("dan", ["cars", "car loans"]),
    ("eve", ["paris", "louvre"]),
]
CLICKS = [
    ("ann", "paris hotels", "h"),
    ("bob", "paris hotels", "h"),
    ("cat", "eiffel tower", "e"),
    ("dan", "car loans", "l"),
]


@pytest.fixture
def model(prepared: Any, tiny_log: Any) -> Shortcuts:
    return fit_model(Shortcuts, prepared(tiny_log(SESSIONS, CLICKS)))


def _bm25(frequency: int, length: int, having: int, k1: float = 1.2, b: float = 0.75) -> float:
    """Lucene's BM25 of one word in the three documents, of 7, 3 and 3 words."""
    rarity = log(1 + (3 - having + 0.5) / (having + 0.5))
    return rarity * frequency / (frequency + k1 * (1 - b + b * length / (13 / 3)))


def test_similar_endings_are_ranked_by_words_and_by_frequency(model: Shortcuts) -> None:
    found = model.suggest(["paris"])
    # paris occurs 4 times in the 7 words before "paris hotels", once in 3 before the tower.
    hotels, tower = _bm25(4, 7, 2), _bm25(1, 3, 2)
    assert [item.text for item in found] == ["paris hotels", "eiffel tower"]
    assert found[0].score == pytest.approx(0.5 * 1 + 0.5 * 2 / 2, rel=1e-5)
    assert found[1].score == pytest.approx(0.5 * tower / hotels + 0.5 * 1 / 2, rel=1e-5)
    assert found[0].source == "seen in the log (2 times at the end of a similar session)"


def test_sessions_without_a_click_at_the_end_do_not_count(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, CLICKS))
    every = fit_model(Shortcuts, data, ShortcutsSettings(satisfactory=False))
    assert "louvre" not in {item.text for item in fit_model(Shortcuts, data).suggest(["paris"])}
    assert "louvre" in {item.text for item in every.suggest(["paris"])}


def test_alpha_weighs_words_against_frequency(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, CLICKS))
    by_words = fit_model(Shortcuts, data, ShortcutsSettings(alpha=1))
    by_frequency = fit_model(Shortcuts, data, ShortcutsSettings(alpha=0))
    assert by_words.suggest(["eiffel paris"], 1)[0].text == "eiffel tower"
    assert by_frequency.suggest(["eiffel paris"], 1)[0].text == "paris hotels"


def test_a_query_never_seen_is_answered_by_its_words(model: Shortcuts) -> None:
    assert model.suggest(["cheap trip to paris france"], 1)[0].text == "paris hotels"


def test_earlier_queries_count_as_far_as_the_window(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, CLICKS))
    context = ["cars", "paris"]
    assert len(fit_model(Shortcuts, data).suggest(context)) == 3
    short = fit_model(Shortcuts, data, ShortcutsSettings(window=1)).suggest(context)
    assert "car loans" not in {item.text for item in short}


def test_only_the_most_similar_documents_are_ranked(prepared: Any, tiny_log: Any) -> None:
    settings = ShortcutsSettings(retrieved=1)
    found = fit_model(Shortcuts, prepared(tiny_log(SESSIONS, CLICKS)), settings).suggest(
        ["eiffel paris"]
    )
    assert [item.text for item in found] == ["eiffel tower"]


def test_half_of_the_probability_belongs_to_the_endings_found(model: Shortcuts) -> None:
    first, second = model.suggest(["paris"])
    share = first.score / (first.score + second.score)
    scored = model.score(["paris"], ["paris hotels", "louvre", "zyzzyva"])
    prior = model.background.log_prior
    # paris hotels is 2 of 10 queries and one imagined.
    assert exp(scored[0].log_likelihood) == pytest.approx(0.5 * share + 0.5 * 2 / 11)
    assert scored[1].log_likelihood == pytest.approx(log(0.5) + prior("louvre"))
    assert scored[2].log_likelihood == pytest.approx(log(0.5) + prior("zyzzyva"))


def test_a_log_without_clicks_says_what_to_do(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS))
    with pytest.raises(InputError, match=r"clicked.*`satisfactory=false`"):
        fit_model(Shortcuts, data, ShortcutsSettings(satisfactory=True))
    assert fit_model(Shortcuts, data, ShortcutsSettings(satisfactory=False)).suggest(["paris"])


def test_the_log_decides_whether_clicks_count(prepared: Any, tiny_log: Any) -> None:
    without = fit_model(Shortcuts, prepared(tiny_log(SESSIONS)))
    with_clicks = fit_model(Shortcuts, prepared(tiny_log(SESSIONS, CLICKS)))

    assert without.settings.satisfactory is False
    assert without.suggest(["paris"])
    assert with_clicks.settings.satisfactory is True


def test_a_rare_ending_is_no_document(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(Shortcuts, prepared(tiny_log(SESSIONS, CLICKS, min_users=2)))
    assert [item.text for item in model.suggest(["paris trip"])] == ["paris hotels"]
