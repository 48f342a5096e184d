"""The pool of a study and its judgements."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from nextquery.artifacts import publish
from nextquery.errors import ArtifactError, InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.study.pool import (
    FILE,
    NOT_USEFUL,
    POOL,
    USEFUL,
    Item,
    Judgement,
    JudgementStore,
    Key,
    Pool,
    PooledTopic,
    Topic,
    add_contexts,
    create_study,
    open_models,
    read_key,
    read_pool,
    read_topics,
    sample_topics,
)
from nextquery.study.results import first_pass
from nextquery.suggesters.base import Adjustable, Decoding

from .conftest import WordAdder


def test_equal_suggestions_are_pooled_once(study: Path) -> None:
    pool, key = read_pool(study), read_key(study)
    # guide, book, price, movie and three bad ones: price came from two models.
    assert [len(topic.items) for topic in pool.topics] == [7, 7]
    price = next(item.id for item in pool.topics[0].items if item.text == "jaguar price")
    assert key.given["SecretGood"][0][2] == price == key.given["SecretMixed"][0][0]


def test_contexts_are_for_the_owner_only(study: Path) -> None:
    assert (study / POOL).stat().st_mode & 0o777 == 0o600


def test_only_the_key_names_models(study: Path) -> None:
    for file in study.iterdir():
        assert ("Secret" in file.read_text()) == (file.name == "key.json"), file.name


def test_every_assessor_has_an_order_of_their_own(study: Path) -> None:
    pool = read_pool(study)
    orders = {tuple(i.id for t in pool.shuffled(n) for i in t.items) for n in range(1, 6)}
    assert len(orders) == 5
    assert pool.shuffled(1) == read_pool(study).shuffled(1)
    assert all(sorted(order) == list(range(14)) for order in orders)


def test_a_study_with_judgements_is_never_replaced(study: Path) -> None:
    JudgementStore(study)
    with pytest.raises(ArtifactError, match="already has judgements"):
        create_study(study, [Topic("x")], {"a": None, "b": None})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["", " ", "a\x00b", "a\nb", "\udcff", "\u202eabc", "x" * 81])
def test_a_name_that_no_report_could_show_is_refused_before_anybody_judges(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(InputError, match="printable"):
        create_study(tmp_path / "s", [Topic("x")], {name: WordAdder("a"), "b": WordAdder("b")})
    assert not (tmp_path / "s").exists()


def test_half_characters_of_a_model_do_not_break_the_folder(tmp_path: Path) -> None:
    models = {"a": WordAdder("\ud800", "\udfff"), "b": WordAdder("\U0001f600")}
    create_study(tmp_path / "s", [Topic("x")], models)
    texts = [item.text for item in read_pool(tmp_path / "s").topics[0].items]
    assert texts == ["x \ufffd", "x \U0001f600"]


def test_one_model_is_not_a_comparison(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least two"):
        create_study(tmp_path / "s", [Topic("x")], {})


TREC = """<?xml version="1.0"?>
<topics><topic number="1" type="faceted"><query>garden shed</query>
<description>Find plans for a
garden shed.</description><subtopic number="1">x</subtopic></topic>
<topic number="2"><query> </query></topic></topics>"""


@pytest.fixture
def data(tmp_path: Path) -> PreparedData:
    sessions = {1: ["shed", "garden shed"], 2: ["barn", "garden shed"], 3: ["cat food", "dog food"]}
    rows = [
        {"session": number, "position": position, "user": "u", "query": query}
        for number, queries in sessions.items()
        for position, query in enumerate(queries)
    ]
    entries = {"counts": {"sessions": {"test": 3}}, "settings": {"min_users": 1}}
    with publish(tmp_path / "data", "data", entries) as folder:
        (folder / "sessions" / "test").mkdir(parents=True)
        pl.DataFrame(rows).write_parquet(folder / "sessions" / "test" / "part-00000.parquet")
    return PreparedData(tmp_path / "data")


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_trec_csv_and_text_files(tmp_path: Path) -> None:
    expected = [Topic("garden shed", "Find plans for a garden shed.")]
    assert read_topics(_write(tmp_path, "t.xml", TREC)) == expected
    table = 'query,description\ngarden shed,"Find plans for a garden shed."\n'
    assert read_topics(_write(tmp_path, "t.csv", table)) == expected
    lines = "garden shed\n\nGarden  Shed!\ndog food\n"
    assert read_topics(_write(tmp_path, "t.txt", lines)) == [
        Topic("garden shed"),
        Topic("dog food"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("t.txt", "\n\n", "no topic"),
        ("t.csv", "text\nx\n", "column 'query'"),
        ("t.xml", "<topics><topic>", "well-formed"),
        ("t.xml", '<!DOCTYPE t [<!ENTITY a "b">]><t/>', "entities"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_topics(_write(tmp_path, name, text))


def test_a_topic_comes_once_with_every_context_that_led_to_it(data: PreparedData) -> None:
    topics = add_contexts([Topic("Garden shed", "why"), Topic("cat food")], data)
    assert topics == [
        Topic("Garden shed", "why", ("barn",)),
        Topic("Garden shed", "why", ("shed",)),
        Topic("cat food"),
    ]


def test_at_most_n_contexts_are_drawn_by_seed(data: PreparedData) -> None:
    topics = [Topic("garden shed"), Topic("cat food")]
    drawn = {tuple(t.context for t in add_contexts(topics, data, 1, seed)) for seed in range(20)}
    assert drawn == {(("barn",), ()), (("shed",), ())}
    assert add_contexts(topics, data, 2) == add_contexts(topics, data)


def test_sampled_topics_are_distinct_and_decided_by_the_seed(data: PreparedData) -> None:
    topics = sample_topics(data, 2, seed=3)
    assert {topic.query for topic in topics} == {"garden shed", "dog food"}
    assert topics == sample_topics(data, 2, seed=3)
    with pytest.raises(InputError, match="only 2"):
        sample_topics(data, 3, seed=3)


def test_one_folder_is_asked_in_two_ways(served_models: dict[str, Path]) -> None:
    hred = served_models["hred"]
    settings = {"old": ["specificity=0", "known=free"]}
    result = open_models({"old": hred, "new": hred}, settings)
    old, new = result["old"], result["new"]
    assert isinstance(old, Decoding)
    assert isinstance(new, Decoding)
    assert (old.config.specificity, old.config.known) == (0.0, "free")
    assert (new.config.specificity, new.config.known) == (0.3, "prefer")
    asked = old.config.model_copy()
    assert old.suggest(["a"], 5) == new.suggest(["a"], 5, config=asked)


def test_a_count_model_has_its_specificity(served_models: dict[str, Path]) -> None:
    folders = {"a": served_models["adjacency"], "b": served_models["adjacency"]}
    result = open_models(folders, {"b": ["specificity=0.3"]})
    assert isinstance(result["b"], Adjustable)
    assert result["b"].specificity == 0.3
    assert isinstance(result["a"], Adjustable)
    assert result["a"].specificity == 0.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"c": ["specificity=0"]}, "no model has this name"),
        ({"a": ["beam=4"]}, "takes specificity"),
        ({"a": ["specificity=many"]}, "from 0 to 1"),
    ],
)
def test_what_cannot_be_set_is_refused(
    settings: dict[str, list[str]], said: str, served_models: dict[str, Path]
) -> None:
    with pytest.raises(InputError, match=said):
        open_models({"a": served_models["adjacency"], "b": served_models["hred"]}, settings)


MADE_POOL = Pool(
    1,
    (
        PooledTopic(
            0,
            Topic("jaguar", "", ("Big Cats",)),
            (Item(0, "big cats"), Item(1, "fast jaguar"), Item(2, "lion")),
        ),
        PooledTopic(1, Topic("python"), (Item(3, "python"),)),
    ),
)
KEY = Key(2, {"A": {0: (0, 1), 1: (3,)}, "B": {0: (1, 2), 1: (3,)}})


def test_facts_by_hand() -> None:
    result = first_pass(MADE_POOL, KEY)
    assert (result.topics, result.items, result.same_lists) == (2, 4, 1)
    a, b = result.models
    # A: 3 of 4 places; "big cats" and "python" repeat the session; "big cats" is its own.
    assert a.filled == b.filled == 0.75
    assert (a.repeats, a.extends, a.alone) == pytest.approx((2 / 3, 1 / 3, 1 / 3))
    assert (b.repeats, b.extends, b.alone) == pytest.approx((1 / 3, 1 / 3, 1 / 3))


def test_it_says_that_nobody_judged(study: Path) -> None:
    result = first_pass(read_pool(study), read_key(study))
    assert result.judged_by == "nobody"
    assert "not a study" in result.notice
    assert not (study / "judgements.sqlite").exists()


def test_the_last_judgement_counts_and_undo_reverts_it(tmp_path: Path) -> None:
    store = JudgementStore(tmp_path)
    store.judge(1, 4, USEFUL)
    store.judge(1, 4, NOT_USEFUL)
    store.judge(2, 4, USEFUL)
    assert store.current(1) == [Judgement(1, 4, NOT_USEFUL)]
    store.judge(1, 4, None)
    assert store.current() == [Judgement(2, 4, USEFUL)]


def test_tokens_are_unguessable_and_stay(tmp_path: Path) -> None:
    store = JudgementStore(tmp_path)
    assert store.assessors() == []
    tokens = store.tokens(3)
    assert store.assessors() == [1, 2, 3]
    again = JudgementStore(tmp_path).tokens(5)
    assert {n: again[n] for n in tokens} == tokens
    assert len(set(again.values())) == 5
    assert min(map(len, again.values())) >= 32


def test_a_link_belongs_to_the_first_browser_that_judges_until_released(tmp_path: Path) -> None:
    store = JudgementStore(tmp_path)
    store.tokens(1)
    assert store.admits(1, None)
    assert store.admits(1, "phone")
    assert store.claim(1, "laptop")
    assert store.claim(1, "laptop")
    assert not store.claim(1, "phone")
    assert [store.admits(1, browser) for browser in ("laptop", "phone", None)] == [
        True,
        False,
        False,
    ]
    assert not store.admits(2, "laptop")
    store.release(1)
    assert store.claim(1, "phone")
    with pytest.raises(InputError, match="no such assessor"):
        store.release(9)


def test_several_assessors_write_at_once(tmp_path: Path) -> None:
    store = JudgementStore(tmp_path)

    def judge_twenty(assessor: int) -> None:
        for item in range(20):
            store.judge(assessor, item, USEFUL)

    with ThreadPoolExecutor(5) as threads:
        list(threads.map(judge_twenty, range(5)))
    assert len(store.current()) == 100


@pytest.mark.parametrize("number", [0, -1, 1 << 63, 10**30])
def test_assessors_that_cannot_be_are_refused(tmp_path: Path, number: int) -> None:
    store = JudgementStore(tmp_path)
    with pytest.raises(InputError, match="no such assessor"):
        store.release(number)
    with pytest.raises(InputError, match=r"at (least|most)"):
        store.tokens(number)


@pytest.mark.parametrize("content", [b"no database at all " * 100, bytes(range(256)) * 40])
def test_a_file_that_is_not_a_database_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ArtifactError, match=r"judgements\.sqlite: the judgements cannot be read"):
        JudgementStore(tmp_path)
