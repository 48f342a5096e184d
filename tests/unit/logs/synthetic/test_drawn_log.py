"""What the made-up log is drawn like: its structure and its control."""

from collections import Counter, defaultdict

import numpy as np
import polars as pl
import pytest

from nextquery.errors import InputError
from nextquery.logs.synthetic.log import (
    Satisfaction,
    SyntheticLog,
    check_satisfaction,
    make_log,
)
from nextquery.logs.synthetic.queries import INTENTS, Role

SESSIONS = 20_000
HALF_AN_HOUR = 30 * 60


@pytest.fixture(scope="module")
def log() -> SyntheticLog:
    return make_log(SESSIONS, seed=1)


@pytest.fixture(scope="module")
def shuffled() -> SyntheticLog:
    return make_log(SESSIONS, seed=1, shuffled=True)


@pytest.mark.parametrize(("sessions", "seed"), [(0, 1), (-3, 1), (10, -1)])
def test_impossible_numbers_are_refused(sessions: int, seed: int) -> None:
    with pytest.raises(InputError):
        make_log(sessions, seed)


def test_half_an_hour_of_pause_gives_back_exactly_the_sessions(log: SyntheticLog) -> None:
    ordered = log.queries.sort("user", "time", maintain_order=True)
    cut = (pl.col("user") != pl.col("user").shift()) | (pl.col("time").diff() > HALF_AN_HOUR)
    found = ordered.select(cut=cut.fill_null(True), new=pl.col("session").diff().fill_null(1) != 0)
    assert found["cut"].equals(found["new"])
    assert found["cut"].sum() == SESSIONS


def test_the_log_spans_three_months_and_users_come_back(log: SyntheticLog) -> None:
    days = log.queries["time"] // 86_400
    assert days.n_unique() in (91, 92)
    sessions_a_user = Counter(log.hidden.user.tolist())
    assert np.median(list(sessions_a_user.values())) >= 4
    assert max(sessions_a_user.values()) < 100


def _transitions(log: SyntheticLog) -> pl.DataFrame:
    """Consecutive queries of a session, both of the session's own topic."""
    columns = ("role", "entity", "text", "slip")
    following = [pl.col(name).shift(-1).over("session").alias(f"next_{name}") for name in columns]
    topical = (pl.col("role") != Role.NAVIGATION) & (pl.col("next_role") != Role.NAVIGATION)
    return log.queries.with_columns(following).drop_nulls("next_role").filter(topical)


def test_every_kind_of_reformulation_is_there(log: SyntheticLog) -> None:
    pairs = _transitions(log)
    text, following = pl.col("text"), pl.col("next_text")
    same = pl.col("entity") == pl.col("next_entity")
    bare = (Role.ENTITY, Role.FAMILY)
    shares = pairs.select(
        specialise=following.str.starts_with(text + " ").mean(),
        generalise=(same & ~pl.col("role").is_in(bare) & pl.col("next_role").is_in(bare)).mean(),
        parallel=(~same).mean(),
        slip=pl.col("slip").mean(),
    ).row(0, named=True)
    assert shares["specialise"] > 0.15
    assert shares["generalise"] > 0.03
    assert shares["parallel"] > 0.2
    assert 0.02 < shares["slip"] < 0.06


def test_a_slip_is_followed_by_the_right_spelling(log: SyntheticLog) -> None:
    slips = _transitions(log).filter("slip")
    assert len(slips) > 500
    assert (slips["text"] != slips["next_text"]).all()
    lengths = slips["text"].str.len_chars().cast(int) - slips["next_text"].str.len_chars()
    assert lengths.abs().max() == 1


def test_few_queries_are_frequent_and_most_are_seen_once(log: SyntheticLog) -> None:
    counts = log.queries["text"].value_counts(sort=True)
    assert set(counts["text"].head(5)) <= {"google", "facebook", "youtube", "yahoo mail", "amazon"}
    times = counts["count"].to_numpy()
    assert times[:100].sum() / times.sum() > 0.2
    assert np.mean(times == 1) > 0.6


def test_words_are_known_to_enough_users(log: SyntheticLog) -> None:
    words = (
        log.queries.filter(~pl.col("slip"))
        .select("user", word=pl.col("text").str.split(" "))
        .explode("word")
    )
    users = words.group_by("word").agg(pl.col("user").n_unique())
    assert 2000 < len(users) < 5000
    assert np.mean(users["user"].to_numpy() >= 3) > 0.95


def test_navigation_stands_at_random_places(log: SyntheticLog) -> None:
    noisy = pl.col("role") == Role.NAVIGATION
    sessions = (
        log.queries.group_by("session")
        .agg(
            first=noisy.first(),
            last=noisy.last(),
            inner=noisy.slice(1, pl.len() - 2).any(),
            n=pl.len(),
        )
        .filter(pl.col("n") > 3)
    )
    for place in ("first", "last", "inner"):
        assert np.mean(sessions[place].to_numpy()) > 0.02, place


def _endings(log: SyntheticLog) -> pl.DataFrame:
    """Sessions that end with an outcome after a bare entity: the words' intents, in order."""
    sessions = log.queries.group_by("session", maintain_order=True).agg("role", "intent", "text")
    roles = pl.col("role").list
    ends = (roles.get(-1) == Role.OUTCOME) & (roles.get(-2) == Role.ENTITY)
    return sessions.filter(roles.len() > 2).filter(ends)


def _intent_known_from_context(log: SyntheticLog) -> float:
    """How often the intent named most in the context (the later of two) is that of the target."""
    right = total = 0
    for intents in _endings(log)["intent"]:
        *context, target = intents
        votes = Counter(intent for intent in context if intent >= 0)
        if votes:
            total += 1
            best = max(reversed([*votes]), key=votes.__getitem__)
            right += best == target
    assert total > 50
    return right / total


def _intent_known_from_anchor(log: SyntheticLog) -> float:
    """How often the intent that follows the anchor most often is that of the target."""
    following: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for intents, texts in _endings(log).select("intent", "text").iter_rows():
        following[texts[-2]][intents[-1]] += 1
    frequent = [counts for counts in following.values() if counts.total() >= 40]
    assert len(frequent) > 20
    return sum(max(c.values()) for c in frequent) / sum(c.total() for c in frequent)


def test_the_anchor_is_ambiguous_where_the_session_is_not(log: SyntheticLog) -> None:
    assert _intent_known_from_anchor(log) < 1 / INTENTS + 0.12
    assert _intent_known_from_context(log) > 0.6


def test_longer_sessions_tell_more(log: SyntheticLog) -> None:
    length = pl.col("session").count().over("session")
    parts = (log.queries.filter(length <= 4), log.queries.filter(length >= 6))
    short, long = (_intent_known_from_context(SyntheticLog(part, log.hidden)) for part in parts)
    assert long > short + 0.03


def test_exact_contexts_hardly_repeat(log: SyntheticLog) -> None:
    contexts = Counter(tuple(texts[-3:-1]) for texts in _endings(log)["text"])
    once = sum(count for count in contexts.values() if count == 1)
    assert once / contexts.total() > 0.6


def test_the_strings_of_the_context_do_not_give_the_outcome_away(log: SyntheticLog) -> None:
    repeated = []
    for *context, anchor, target in _endings(log)["text"]:
        added = set(target.split()) - set(anchor.split())
        repeated.append(not added.isdisjoint(" ".join(context).split()))
    assert len(repeated) > 1000
    assert np.mean(repeated) < 0.15


def test_the_control_has_the_same_queries_and_sessions(
    log: SyntheticLog, shuffled: SyntheticLog
) -> None:
    content, place = ["text", "url", "clicks", "pages", "role"], ["session", "user", "time"]
    assert log.queries.select(place).equals(shuffled.queries.select(place))
    assert not log.queries.select(content).equals(shuffled.queries.select(content))
    assert (
        log.queries.select(content)
        .sort(content)
        .equals(shuffled.queries.select(content).sort(content))
    )


def test_in_the_control_the_context_tells_nothing(shuffled: SyntheticLog) -> None:
    intents = shuffled.queries["intent"]
    following = intents.shift(-1)
    said = (intents >= 0) & (following >= 0)
    agree = (intents == following).filter(said).mean()
    frequency = intents.filter(intents >= 0).value_counts(normalize=True)["proportion"]
    assert agree == pytest.approx((frequency**2).sum(), abs=0.01)


def test_sessions_are_those_of_the_rows(log: SyntheticLog) -> None:
    sessions = log.sessions()
    assert len(sessions) == len(log.hidden.user)
    assert [text for each in sessions for text in each.queries] == log.queries["text"].to_list()
    by_domain = [log.sessions(domain) for domain in range(int(log.hidden.domain.max()) + 1)]
    assert sum(map(len, by_domain)) == len(sessions)
    assert all(log.hidden.domain[each.id] == 1 for each in by_domain[1])
    assert len(by_domain[0]) == max(map(len, by_domain))


@pytest.mark.parametrize("kind", ["outcome", "chance"])
def test_satisfaction_changes_clicks_and_pauses_and_no_query(kind: Satisfaction) -> None:
    drawn = make_log(300, seed=5, satisfaction=kind).queries
    plain = make_log(300, seed=5).queries
    assert drawn.select("session", "user", "text").equals(plain.select("session", "user", "text"))
    satisfied = drawn.filter("satisfied")
    assert satisfied["clicks"].min() == 1
    in_vain = drawn.filter(~pl.col("satisfied"), pl.col("clicks") > 0)
    assert 0.2 < len(in_vain) / len(drawn.filter(~pl.col("satisfied"))) < 0.8


def test_outcomes_decide_who_is_satisfied_but_not_in_the_control() -> None:
    shares = {}
    for kind in ("outcome", "chance"):
        queries = make_log(SESSIONS, seed=5, satisfaction=check_satisfaction(kind)).queries
        outcomes = queries.filter(pl.col("role") == Role.OUTCOME, ~pl.col("slip"))
        texts = outcomes.group_by("text").agg(pl.col("satisfied").mean(), pl.len())
        often = texts.filter(pl.col("len") >= 20)["satisfied"].to_numpy()
        assert len(often) > 30
        shares[kind] = ((often > 0.65) | (often < 0.4)).mean()
    assert shares["outcome"] > 0.9
    assert shares["chance"] < 0.4


def test_another_satisfaction_is_refused() -> None:
    with pytest.raises(
        InputError, match="`satisfaction` all: must be one of none, outcome, chance"
    ):
        check_satisfaction("all")
