"""Search Shortcuts and rescue, by hand."""

import subprocess
import sys
from datetime import datetime, timedelta
from math import exp, log
from pathlib import Path

import pytest

from nextquery import load, prepare
from nextquery.errors import InputError
from nextquery.guard.guard import TitleHits
from nextquery.records import Suggestion
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.rescue import Rescue, RescueSettings, rescued
from nextquery.suggesters.shortcuts import Shortcuts, ShortcutsSettings

from .conftest import DataMaker, followers, texts

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
def model(data_of: DataMaker) -> Shortcuts:
    return fit_model(Shortcuts, data_of(SESSIONS, CLICKS))


def _bm25(frequency: int, length: int, having: int, k1: float = 1.2, b: float = 0.75) -> float:
    """Lucene's BM25 of one word in the three documents, of 7, 3 and 3 words."""
    rarity = log(1 + (3 - having + 0.5) / (having + 0.5))
    return rarity * frequency / (frequency + k1 * (1 - b + b * length / (13 / 3)))


def test_similar_endings_are_ranked_by_words_and_by_frequency(model: Shortcuts) -> None:
    result = model.suggest(["paris"])
    # paris occurs 4 times in the 7 words before "paris hotels", once in 3 before the tower.
    hotels, tower = _bm25(4, 7, 2), _bm25(1, 3, 2)
    assert texts(result) == ["paris hotels", "eiffel tower"]
    assert result[0].score == pytest.approx(0.5 * 1 + 0.5 * 2 / 2, rel=1e-5)
    assert result[1].score == pytest.approx(0.5 * tower / hotels + 0.5 * 1 / 2, rel=1e-5)
    assert result[0].source == "seen in the log (2 times at the end of a similar session)"


def test_sessions_without_a_click_at_the_end_do_not_count(data_of: DataMaker) -> None:
    data = data_of(SESSIONS, CLICKS)
    every = fit_model(Shortcuts, data, ShortcutsSettings(satisfactory=False))
    assert "louvre" not in {item.text for item in fit_model(Shortcuts, data).suggest(["paris"])}
    assert "louvre" in {item.text for item in every.suggest(["paris"])}


def test_alpha_weighs_words_against_frequency(data_of: DataMaker) -> None:
    data = data_of(SESSIONS, CLICKS)
    by_words = fit_model(Shortcuts, data, ShortcutsSettings(alpha=1))
    by_frequency = fit_model(Shortcuts, data, ShortcutsSettings(alpha=0))
    assert by_words.suggest(["eiffel paris"], 1)[0].text == "eiffel tower"
    assert by_frequency.suggest(["eiffel paris"], 1)[0].text == "paris hotels"


def test_a_query_never_seen_is_answered_by_its_words(model: Shortcuts) -> None:
    assert model.suggest(["cheap trip to paris france"], 1)[0].text == "paris hotels"


def test_earlier_queries_count_as_far_as_the_window(data_of: DataMaker) -> None:
    data = data_of(SESSIONS, CLICKS)
    context = ["cars", "paris"]
    assert len(fit_model(Shortcuts, data).suggest(context)) == 3
    short = fit_model(Shortcuts, data, ShortcutsSettings(window=1)).suggest(context)
    assert "car loans" not in {item.text for item in short}


def test_only_the_most_similar_documents_are_ranked(data_of: DataMaker) -> None:
    settings = ShortcutsSettings(retrieved=1)
    result = fit_model(Shortcuts, data_of(SESSIONS, CLICKS), settings).suggest(["eiffel paris"])
    assert texts(result) == ["eiffel tower"]


def test_half_of_the_probability_belongs_to_the_endings_found(model: Shortcuts) -> None:
    first, second = model.suggest(["paris"])
    share = first.score / (first.score + second.score)
    scored = model.score(["paris"], ["paris hotels", "louvre", "zyzzyva"])
    prior = model.background.log_prior
    # paris hotels is 2 of 10 queries and one imagined.
    assert exp(scored[0].log_likelihood) == pytest.approx(0.5 * share + 0.5 * 2 / 11)
    assert scored[1].log_likelihood == pytest.approx(log(0.5) + prior("louvre"))
    assert scored[2].log_likelihood == pytest.approx(log(0.5) + prior("zyzzyva"))


def test_a_log_without_clicks_says_what_to_do(data_of: DataMaker) -> None:
    data = data_of(SESSIONS)
    with pytest.raises(InputError, match=r"clicked.*`satisfactory=false`"):
        fit_model(Shortcuts, data, ShortcutsSettings(satisfactory=True))
    assert fit_model(Shortcuts, data, ShortcutsSettings(satisfactory=False)).suggest(["paris"])


def test_a_rare_ending_is_not_a_document(data_of: DataMaker) -> None:
    model = fit_model(Shortcuts, data_of(SESSIONS, CLICKS, min_users=2))
    assert texts(model.suggest(["paris trip"])) == ["paris hotels"]


ENDED_SESSIONS = [
    ("u1", ["shoes", "red boots"]),
    ("u2", ["socks", "red boots"]),
    ("u3", ["red boots", "shoes"]),
]
END_CLICKS = [("u1", "red boots", "/boots"), ("u2", "red boots", "/boots")]


def endings(model: Shortcuts) -> dict[str, float]:
    texts = [model.background.text(int(number)) for number in model.endings]
    return dict(zip(texts, model.sessions.tolist(), strict=True))


def test_all_ends_count_where_asked_or_where_nothing_was_clicked(data_of: DataMaker) -> None:
    asked = ShortcutsSettings(satisfactory=False)
    for model in (
        fit_model(Shortcuts, data_of(ENDED_SESSIONS, clicks=END_CLICKS), asked),
        fit_model(Shortcuts, data_of(ENDED_SESSIONS)),
    ):
        assert endings(model) == {"red boots": 2, "shoes": 1}
        assert model.settings.satisfactory is False


def test_old_sessions_weigh_less_and_then_leave(data_of: DataMaker) -> None:
    data = data_of(ENDED_SESSIONS, days=[0, 4, 4])
    model = fit_model(Shortcuts, data, ShortcutsSettings(half_life_days=4))
    assert endings(model) == pytest.approx({"red boots": 1.5, "shoes": 1})
    model = fit_model(Shortcuts, data, ShortcutsSettings(window_days=2))
    assert endings(model) == {"red boots": 1, "shoes": 1}


GROWN = """
import resource, sys
import nextquery
nextquery.fit(sys.argv[1], "shortcuts")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
nextquery.fit(sys.argv[2], "shortcuts")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def _monitored_log(file: Path, searches: int) -> Path:
    """Sessions of 300 people, and one of a program that searches every minute."""
    queries = ("red shoes", "blue shoes", "green hat", "cheap flights", "paris hotels")
    start = datetime(2006, 3, 1)
    rows = [("monitor", minute, queries[minute % 5]) for minute in range(searches)]
    for user in range(300):
        begin = user * 7919 % 28_800
        rows += [(f"u{user}", begin + step, queries[(user + step) % 5]) for step in range(3)]
    lines = [
        f"{user}\t{query}\t{start + timedelta(minutes=minute)}\t1\thttp://x.example\n"
        for user, minute, query in rows
    ]
    file.write_text("AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n" + "".join(lines))
    return file


@pytest.mark.slow
def test_memory_does_not_grow_with_the_square_of_a_session(tmp_path: Path) -> None:
    folders = []
    for searches in (10, 3000):
        log = _monitored_log(tmp_path / f"{searches}.tsv", searches)
        folders.append(tmp_path / f"data-{searches}")
        prepare(log, folders[-1], spelling=False, max_session_queries=100_000)
    command = [sys.executable, "-c", GROWN, *map(str, folders)]
    grown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(grown.stdout) < 100  # MB; nine million pairs of queries take 400


FAILED_SESSIONS = [
    ("u1", ["paris hotles", "paris hotels"]),
    ("u2", ["paris hotles", "hotles", "paris hotels", "rome"]),
    ("u3", ["paris hotles", "rome"]),
    ("u4", ["paris hotels", "rome"]),
    ("u5", ["zebra crosing"]),
]
TITLES = TitleHits(["Paris hotels", "Rome"])


@pytest.fixture
def rescue(data_of: DataMaker, tmp_path: Path) -> Rescue:
    fit_model(Rescue, data_of(FAILED_SESSIONS), hits=TITLES).save(tmp_path / "rescue")
    model = load(tmp_path / "rescue")
    assert isinstance(model, Rescue)
    return model


def test_the_first_query_that_found_something_counts(rescue: Rescue) -> None:
    result = rescue.suggest(["london", "Paris hotles!"], 5)
    assert texts(result) == ["paris hotels", "rome"]
    # u1 and u2 continued with "paris hotels", u2 by way of another query that found nothing
    assert result[0].source == "people who found nothing then searched for this (2 times)"
    assert result[1].source == "people who found nothing then searched for this (1 time)"
    prior = 3 / 12  # "paris hotels" is 3 of 11 queries
    assert result[0].score == pytest.approx(log((2 + prior) / (3 + 1)))


def test_a_query_that_finds_something_has_no_list(rescue: Rescue) -> None:
    assert rescue.suggest(["paris hotels"], 5) == []
    assert rescue.suggest([], 5) == []
    assert rescue.suggest(["zebra crosing"], 5) == []  # nobody continued
    assert [rescue.fails(text) for text in ("paris hotles", "hotles", "rome", "zebra crosing")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_query_that_nobody_typed_is_answered_by_those_like_it(rescue: Rescue) -> None:
    result = rescue.suggest(["paris hottles"], 5)
    assert texts(result)[0] == "paris hotels"
    assert rescue.suggest(["quantum physics"], 5) == []
    strict = Rescue(
        RescueSettings(similar=0),
        rescue.background,
        rescue.followers,
        rescue.names,
        rescue.trigrams,
    )
    assert strict.suggest(["paris hottles"], 5) == []


def test_without_a_check_a_query_that_was_never_clicked_on_found_nothing(
    data_of: DataMaker,
) -> None:
    clicks = [("u1", "paris hotels", "a.com"), ("u2", "rome", "b.com")]
    model = fit_model(Rescue, data_of(FAILED_SESSIONS, clicks=clicks))
    assert texts(model.suggest(["paris hotles"], 5)) == ["paris hotels", "rome"]
    assert not model.fails("rome")


def test_the_rescue_leads_and_nothing_comes_twice() -> None:
    usual = [Suggestion(text, 0.0, "") for text in ("a", "b", "c")]
    lead = [Suggestion(text, 0.0, "people") for text in ("c", "d")]
    assert texts(rescued(usual, lead, 4)) == ["c", "d", "a", "b"]
    assert texts(rescued(usual, [], 2)) == ["a", "b"]


def test_only_rescue_asks_what_finds_something(data_of: DataMaker) -> None:
    with pytest.raises(InputError, match="`hits`: adjacency does not ask"):
        fit_model(Adjacency, data_of(FAILED_SESSIONS), hits=TITLES)


def test_the_next_query_that_did_not_fail_counts_once_a_session(data_of: DataMaker) -> None:
    sessions = [
        ("u1", ["bad", "bad", "good"]),  # typed twice in one session
        ("u2", ["good", "bad", "worse", "fine", "good"]),  # "worse" failed, too
        ("u3", ["fine", "bad"]),  # nothing came after it
        ("u4", ["worse", "bad"]),  # nothing that found something
    ]
    model = fit_model(Rescue, data_of(sessions), hits=lambda query: query in ("good", "fine"))
    assert followers(model, "bad") == {"good": 1, "fine": 1}
    assert followers(model, "worse") == {"fine": 1}
    assert followers(model, "good") == followers(model, "fine") == {}


def test_what_few_users_typed_is_neither_stored_nor_suggested(data_of: DataMaker) -> None:
    sessions = [(user, ["oops", "secret", "good"]) for user in ("u1", "u2")]
    sessions += [("u1", ["my own typo", "good"])]
    data = data_of(sessions, min_users=2)
    model = fit_model(Rescue, data, hits=lambda query: query == "good")
    assert followers(model, "oops") == {"good": 2}
    assert model.background.id("my own typo") is None
    assert not any(gram in model.names for gram in ("typ", "ypo"))
