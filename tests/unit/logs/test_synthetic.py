"""The synthetic log: pinned bytes, structure and its control."""

import gzip
import hashlib
import os
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nextquery.errors import InputError
from nextquery.guard.guard import read_hits
from nextquery.logs.synthetic.log import (
    Satisfaction,
    SyntheticLog,
    check_satisfaction,
    make_log,
    write_log,
)
from nextquery.logs.synthetic.queries import INTENTS, Role, load_lexicon, parse_lexicon
from nextquery.normalise import normalise_query

# Another value means another log for the same seed: experiments would no longer compare.
SHA256_OF_500_SESSIONS = "31be4ddf21f41961acc5a4a2329da88f6efbef1f4924b2da77e48bc20aef1f7f"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_everywhere(tmp_path: Path) -> None:
    out = tmp_path / "log.tsv"
    command = f"-m nextquery synth {out} --sessions 500 --seed 7".split()
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    subprocess.run([sys.executable, *command], check=True, env=environment, capture_output=True)
    assert _sha256(out) == SHA256_OF_500_SESSIONS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("satisfaction", "shuffled", "extra_words", "right"),
    [
        ("none", False, 0, "7057d7c3c614ea47494a5be53ce080587f76e861c3ff8c53df570bd20a5f65d5"),
        ("none", True, 0, "1f91af2dd501d5a0153dc3cdae23432c283ee45ad45b3b3a8b554bbdb48cb097"),
        ("outcome", False, 0, "daab446c838d251b2beca82e2a43c487ee45ea66f320bbcde6fe3fa6c1c7a498"),
        ("none", False, 5000, "faecfb94ea82ccb95b13dcd4405e097c5a6927f6013d0c2662fe1fa1b77a1738"),
    ],
)
def test_a_log_of_several_parts_is_the_same_bytes_too(
    tmp_path: Path, satisfaction: Satisfaction, shuffled: bool, extra_words: int, right: str
) -> None:
    """Sessions are written in parts of 65,536."""
    write_log(
        tmp_path / "log.tsv",
        70_000,
        seed=3,
        shuffled=shuffled,
        satisfaction=satisfaction,
        extra_words=extra_words,
    )
    assert _sha256(tmp_path / "log.tsv") == right


def test_a_compressed_log_is_the_same_log(tmp_path: Path) -> None:
    for name in ("log.tsv", "log.tsv.gz", "again.tsv.gz"):
        write_log(tmp_path / name, 200, seed=3)
    plain = (tmp_path / "log.tsv").read_bytes()
    assert gzip.decompress((tmp_path / "log.tsv.gz").read_bytes()) == plain
    assert _sha256(tmp_path / "log.tsv.gz") == _sha256(tmp_path / "again.tsv.gz")
    assert len(list(tmp_path.iterdir())) == 3, "something was left next to the logs"


def test_the_file_is_in_aol_format_with_a_row_a_click(tmp_path: Path) -> None:
    header, *lines = _lines(tmp_path, sessions=300)
    assert header == "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
    for line in lines:
        user, query, time, rank, url = line.split("\t")
        assert user.isdigit()
        assert query == normalise_query(query) != ""
        assert len(time) == len("2006-03-01 00:00:00")
        assert bool(rank) == bool(url)
        assert not url or url.endswith(".example")
    clicks = make_log(300, seed=1).queries["clicks"].cast(int)
    assert sum(not line.endswith("\t\t") for line in lines) == clicks.sum()
    assert len(lines) == clicks.clip(1).sum()


def _lines(folder: Path, sessions: int) -> list[str]:
    write_log(folder / "log.tsv", sessions, seed=1)
    return (folder / "log.tsv").read_text(encoding="utf-8").splitlines()


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a folder"):
        write_log(tmp_path, 10, seed=1)
    with pytest.raises(InputError):
        write_log(tmp_path / "log.tsv", 0, seed=1)
    assert list(tmp_path.iterdir()) == []


def test_titles_hold_every_query_but_the_slips(tmp_path: Path) -> None:
    write_log(tmp_path / "plain.tsv", 400, seed=3)
    write_log(tmp_path / "log.tsv", 400, seed=3, titles=tmp_path / "titles")
    assert (tmp_path / "log.tsv").read_bytes() == (tmp_path / "plain.tsv").read_bytes()
    hits = read_hits(tmp_path / "titles")
    queries = make_log(400, seed=3).queries
    _, *lines = (tmp_path / "log.tsv").read_text(encoding="utf-8").splitlines()
    assert set(queries["text"]) == {line.split("\t")[1] for line in lines}
    right = queries.filter(~pl.col("slip"))["text"]
    assert all(hits(normalise_query(text)) for text in right)
    wrong = queries.filter("slip")["text"]
    assert len(wrong) > 10
    assert sum(hits(normalise_query(text)) for text in wrong) < 0.1 * len(wrong)


SESSIONS = 20_000


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
    content, position = ["text", "url", "clicks", "pages", "role"], ["session", "user", "time"]
    assert log.queries.select(position).equals(shuffled.queries.select(position))
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
    assert [text for item in sessions for text in item.queries] == log.queries["text"].to_list()
    by_domain = [log.sessions(domain) for domain in range(int(log.hidden.domain.max()) + 1)]
    assert sum(map(len, by_domain)) == len(sessions)
    assert all(log.hidden.domain[item.id] == 1 for item in by_domain[1])
    assert len(by_domain[0]) == max(map(len, by_domain))


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


@pytest.fixture
def document() -> dict[str, Any]:
    file = resources.files("nextquery.logs.synthetic").joinpath("words.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def test_every_phrase_is_already_normal() -> None:
    for phrase in load_lexicon().phrases:
        assert phrase == normalise_query(phrase)


def test_a_missing_phrase_is_named(document: dict[str, Any]) -> None:
    document["travel"]["facets"].pop()
    with pytest.raises(InputError, match="travel needs 6 different facets"):
        parse_lexicon(document)


def test_a_word_that_gives_the_answer_away_is_named(document: dict[str, Any]) -> None:
    intents = document["travel"]["intents"]
    intents["family"]["signals"][0] = "hostels"
    with pytest.raises(InputError, match="travel has hostels in a signal and in an outcome"):
        parse_lexicon(document)


def test_a_log_may_be_about_some_domains_only() -> None:
    texts = " ".join(make_log(300, 1, domains=("home", "pets")).queries["text"])
    assert "sofa" in texts
    assert "paris" not in texts
    with pytest.raises(InputError, match=r"`domains` toys: choose from travel, "):
        make_log(10, 1, domains=("toys",))
