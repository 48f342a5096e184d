"""What the guard lets through: hand-made logs with one person's secret in them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nextquery.artifacts import publish
from nextquery.errors import ArtifactError, BlocklistError
from nextquery.guard.guard import Guard, Reason, TitleHits, read_hits
from nextquery.guard.tables import write_tables

from .conftest import DataMaker, publish_tables

CROWD = [
    (f"user{number}", ["hotel paris", "cheap hotel", "paris museum", "red wine bar"])
    for number in range(3)
]
SECRET = ("diarist", ["wine hotel", "museum red wine", "zanzibarra"] * 10_000)
COMMON_PAIRS_RARE_WHOLE = ("diarist", ["cheap hotel paris museum"])


@pytest.fixture
def guard(make_data: DataMaker, tmp_path: Path) -> Guard:
    data = make_data([*CROWD, SECRET, COMMON_PAIRS_RARE_WHOLE], 3)
    return Guard.open(publish_tables(data, tmp_path / "model"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hotel paris", None),  # three users
        ("paris hotel", None),  # nobody
        ("cheap hotel paris", None),  # common pairs, nobody typed the whole
        ("wine hotel", Reason.RARE_PAIR),  # one user, ten thousand times
        ("paris museum red wine", Reason.RARE_PAIR),  # part of the secret
        ("zanzibarra", Reason.RARE_WORD),
        ("cheap hotel paris museum", Reason.RARE_QUERY),
        ("paris", None),
    ],
)
def test_the_k_user_rule(guard: Guard, text: str, reason: Reason | None) -> None:
    assert guard.allows(text).reason == reason


def test_with_k_of_one_the_same_log_refuses_nothing(make_data: DataMaker, tmp_path: Path) -> None:
    data = make_data([*CROWD, SECRET, COMMON_PAIRS_RARE_WHOLE], 1)
    guard = Guard.open(publish_tables(data, tmp_path / "model"))
    for text in ("wine hotel", "museum red wine", "zanzibarra", "cheap hotel paris museum"):
        assert guard.allows(text)


def test_words_and_pairs_of_the_session_at_hand_pass(guard: Guard) -> None:
    assert not guard.allows("zanzibarra")
    assert guard.allows("zanzibarra hotel", guard.own_text(["zanzibarra"]))
    assert guard.allows("cheap wine hotel", guard.own_text(["wine hotel"]))
    assert not guard.allows("cheap wine hotel", guard.own_text(["wine", "hotel"]))


@pytest.mark.parametrize(
    "junk",
    [
        "wine hotel zanzibarra and many more words that nobody types here",
        f"wine hotel zanzibarra {'x' * 90}",
        "hotel " * 9 + "wine hotel zanzibarra",
    ],
)
def test_a_query_that_does_not_look_typed_exempts_nothing(guard: Guard, junk: str) -> None:
    session_text = guard.own_text([junk])
    assert guard.allows("wine hotel", session_text).reason == Reason.RARE_PAIR
    assert guard.allows("zanzibarra", session_text).reason == Reason.RARE_WORD
    assert guard.allows("wine hotel", guard.own_text([junk, "wine hotel"]))  # the control


def test_the_decoders_question_agrees_with_the_verdict(guard: Guard) -> None:
    words = ["hotel", "paris", "cheap", "museum", "red", "wine", "bar"]
    keys = guard.word_keys(words)
    none = np.empty(0, dtype=np.uint64)
    refused = guard.refused_pairs(keys[:, None], keys[None, :], none)
    for row, first in enumerate(words):
        for column, second in enumerate(words):
            verdict = guard.allows(f"{first} {second}")
            assert (verdict.reason == Reason.RARE_PAIR) == refused[row, column]
    assert refused.any()
    assert not refused.all()


def test_no_rare_text_is_in_the_folder(guard: Guard, tmp_path: Path) -> None:
    files = [path for path in (tmp_path / "model" / "guard").rglob("*") if path.is_file()]
    assert len(files) == 8
    for file in files:
        assert b"zanzibarra" not in file.read_bytes()


def test_the_same_data_gives_the_same_bytes(make_data: DataMaker, tmp_path: Path) -> None:
    data = make_data([*CROWD, SECRET], 3)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_tables(data, tmp_path / name)
    for file in (tmp_path / "one" / "guard").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / "guard" / file.name).read_bytes()


def test_sources_count_the_known_queries_only(guard: Guard) -> None:
    assert guard.source("hotel paris") == "seen in the log (3 times)"
    assert guard.source("paris hotel") == "synthetic"
    assert guard.source("wine hotel") == "synthetic"


def test_a_blocklist_acts_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "blocked.txt"
    file.write_text("rude\n", encoding="utf-8")
    guard = Guard(blocklist=file)
    assert guard.allows("rude joke").reason == Reason.BLOCKLIST
    assert not guard.reload()
    file.write_text("joke\nprank\n", encoding="utf-8")
    assert guard.reload()
    assert guard.allows("rude thing")
    assert guard.allows("rude joke").reason == Reason.BLOCKLIST


def test_a_blocklist_that_turns_bad_keeps_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "blocked.txt"
    file.write_text("rude\n", encoding="utf-8")
    guard = Guard(blocklist=file)
    file.write_text("", encoding="utf-8")
    with pytest.raises(BlocklistError):
        guard.reload()
    assert not guard.allows("rude joke")
    file.unlink()
    with pytest.raises(BlocklistError):
        guard.reload()
    assert not guard.allows("rude joke")


def test_refusals_are_counted_by_reason(guard: Guard) -> None:
    for text in ("wine hotel", "wine hotel", "zanzibarra", "hotel paris"):
        guard.allows(text)
    assert guard.blocked() == {Reason.RARE_PAIR: 2, Reason.RARE_WORD: 1}


@pytest.mark.parametrize("text", ["john 555 123 4567", "someone gmail com", "4111 1111 1111 1111"])
def test_what_looks_like_personal_data_is_refused(text: str) -> None:
    assert Guard().allows(text).reason == Reason.PERSONAL_DATA
    assert not Guard().allows(text, Guard().own_text([text]))


def test_a_hits_check_is_a_function_or_a_file_of_titles(tmp_path: Path) -> None:
    titles = tmp_path / "titles.txt"
    titles.write_text("The Red Wine Bar, Paris\nHotel Roma\n", encoding="utf-8")
    guard = Guard(hits=read_hits(titles))
    assert guard.allows("wine paris")
    assert guard.allows("hotel paris").reason == Reason.NO_HITS
    assert Guard(hits=lambda text: text == "x").allows("x")
    assert not TitleHits([])("anything")


def test_a_guard_that_serves_needs_only_what_a_service_installs() -> None:
    """No Polars; and phone numbers by country are recognised in logs only."""
    program = (
        "import sys; from nextquery.guard.blocklist import Blocklist; "
        "from nextquery.guard.guard import Guard; assert Blocklist(['bad']).blocks('bаd'); "
        "assert Guard().allows('gate 101'); "
        "print([m for m in ('polars', 'pyarrow', 'phonenumbers', 'torch') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert printed.stdout.strip() == b"[]"
    listed = Path(__file__).parents[3] / "deploy" / "requirements-serve.txt"
    assert {"pystemmer", "confusable-homoglyphs"} <= set(listed.read_text("utf-8").split())


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with publish(tmp_path / "model", "adjacency", {}):
        pass
    with pytest.raises(ArtifactError, match="make the model again"):
        Guard.open(tmp_path / "model")


def test_an_altered_table_is_refused(make_data: DataMaker, tmp_path: Path) -> None:
    publish_tables(make_data(CROWD, 3), tmp_path / "model")
    table = tmp_path / "model" / "guard" / "queries.marisa"
    os.truncate(table, 10)
    with pytest.raises(ArtifactError, match="altered or truncated"):
        Guard.open(tmp_path / "model")
