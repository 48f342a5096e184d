from math import exp, log
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity, PopularitySettings

SESSIONS = [
    ("ann", ["paris", "paris hotels"]),
    ("bob", ["paris", "rome"]),
    ("cat", ["rome", "oslo"]),
]


def test_the_most_frequent_come_first_and_ties_go_by_text(prepared: Any, tiny_log: Any) -> None:
    found = fit_model(Popularity, prepared(tiny_log(SESSIONS))).suggest([], 4)
    assert [item.text for item in found] == ["paris", "rome", "oslo", "paris hotels"]
    # 6 queries were counted and one more is imagined: paris 2/7, oslo 1/7.
    assert found[0].score == pytest.approx(log(2 / 7))
    assert found[2].score == pytest.approx(log(1 / 7))
    assert [item.source for item in found[1:3]] == [
        "seen in the log (2 times)",
        "seen in the log (1 time)",
    ]


def test_an_unknown_query_is_spelt_out(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(Popularity, prepared(tiny_log(SESSIONS)))
    known_words, unknown_word = model.score([], ["hotels paris", "hotels bergen"])
    # 7 words and 6 ends are counted and one unknown word imagined: 14 symbols.
    # paris occurs 3 times as a word, hotels once; all unknown queries share 1/7.
    assert known_words.log_likelihood == pytest.approx(log(1 / 7 * 1 / 14 * 3 / 14 * 6 / 14))
    assert unknown_word.log_likelihood == pytest.approx(log(1 / 7 * 1 / 14 * 1 / 14 * 6 / 14))
    assert (known_words.words, known_words.unknown) == (3, ())
    assert unknown_word.unknown == ("bergen",)


def test_a_recent_query_outweighs_an_old_one(prepared: Any, tiny_log: Any) -> None:
    log_of_days = tiny_log(
        [("ann", ["old", "old news"]), ("bob", ["old", "x"]), ("cat", ["new", "new news"])],
        days=[0, 0, 20],
    )
    settings = PopularitySettings(half_life_days=10)
    model = fit_model(Popularity, prepared(log_of_days), settings)
    # old: 2 times 1/4, new: once 1; all: 4 times 1/4 and twice 1 = 3, and one imagined.
    old, new = model.score([], ["old", "new"])
    assert exp(old.log_likelihood) == pytest.approx(0.5 / 4)
    assert exp(new.log_likelihood) == pytest.approx(1 / 4)
    assert [item.text for item in model.suggest([], 3)] == ["new", "new news", "old"]


def test_a_saved_decay_is_loaded(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log(SESSIONS, days=[0, 1, 2]))
    model = fit_model(Popularity, data, PopularitySettings(half_life_days=1))
    model.save(tmp_path / "model")
    again = Popularity.load(tmp_path / "model")
    assert again.settings.half_life_days == 1
    assert again.suggest([], 4) == model.suggest([], 4)


def test_with_trending_days_only_what_rises_is_suggested(prepared: Any, tiny_log: Any) -> None:
    """Boots are typed every day; hats by twelve people on the last one."""
    always = [(f"a{day}{n}", ("boots", "red boots")) for day in range(20) for n in range(3)]
    lately = [(f"b{n}", ("hats", "red boots")) for n in range(12)]
    days = [day for day in range(20) for _ in range(3)] + [19] * 12
    data = prepared(tiny_log([*always, *lately], days=days))
    rising = PopularitySettings(trending_days=2)
    assert [each.text for each in fit_model(Popularity, data, rising).suggest([], 5)] == ["hats"]
    assert fit_model(Popularity, data).suggest([], 1)[0].text == "red boots"
    with pytest.raises(InputError, match="neither `half_life_days`"):
        fit_model(Popularity, data, PopularitySettings(trending_days=2, window_days=3))


def test_on_a_quiet_day_the_list_of_what_rises_is_empty(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    always = [(f"a{day}{n}", ("boots", "red boots")) for day in range(20) for n in range(3)]
    data = prepared(tiny_log(always, days=[day for day in range(20) for _ in range(3)]))
    fit_model(Popularity, data, PopularitySettings(trending_days=2)).save(tmp_path / "model")
    model = Popularity.load(tmp_path / "model")
    assert model.suggest([], 5) == []
    assert model.score([], ["boots"])[0].log_likelihood < -20
