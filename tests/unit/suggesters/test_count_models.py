"""What every count model shares: engines, privacy, ages, usefulness, completion."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from functools import cache
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from nextquery.errors import ArtifactError, InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.settings import descriptions
from nextquery.suggesters import count_suggester
from nextquery.suggesters.adjacency import Adjacency, AdjacencySettings
from nextquery.suggesters.background import Ages, AgingSettings
from nextquery.suggesters.base import Adjustable
from nextquery.suggesters.count_suggester import CountSuggester
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import COUNT_MODELS, count_model, load
from nextquery.suggesters.popularity import Popularity
from nextquery.suggesters.sequences import count_factors

from .conftest import DataMaker, followers, texts

TOPICS = ("paris", "rome", "oslo")
WORDS = ("hotels", "flights", "museum", "map")


QUERIES = [*TOPICS, *(f"{topic} {word}" for topic in TOPICS for word in WORDS)]
RANDOM = random.Random(5)
USUAL = [(f"user{n % 9}", RANDOM.sample(QUERIES, RANDOM.randint(2, 5))) for n in range(80)]
USUAL_CLICKS = [(user, typed[-1], f"https://example/{typed[-1][:6]}") for user, typed in USUAL]
USUAL_DAYS = [n // 8 for n in range(80)]


@pytest.fixture(scope="module")
def data(data_of: DataMaker) -> PreparedData:
    return data_of(USUAL, USUAL_CLICKS, min_users=2, days=USUAL_DAYS)


@pytest.fixture(scope="module")
def fitted(data: PreparedData) -> Callable[[str], CountSuggester[Any]]:
    """The model of a kind with its default settings."""
    return cache(lambda kind: fit_model(count_model(kind), data))


SETTINGS = {"popularity": {"half_life_days": 3}, "qvmm": {"depth": 2}, "cacb": {"depth": 2}}


def _hits(kind: str) -> dict[str, Any]:
    """For rescue: after "paris" nothing was found."""
    return {"hits": lambda query: query != "paris"} if kind == "rescue" else {}


def _files(
    kind: str, data: Any, target: Path, engine: str = "polars", **settings: int
) -> dict[str, str]:
    model_type = count_model(kind)
    chosen = model_type.settings_type(**SETTINGS.get(kind, {}) | settings)
    counting: dict[str, Any] = {"engine": engine, "spark_master": "local[1]", **_hits(kind)}
    fit_model(model_type, data, chosen, **counting).save(target)
    files: dict[str, str] = json.loads((target / "manifest.json").read_text())["files"]
    # The guard's key is made from the checksums of the data's files, which do differ.
    return {name: digest for name, digest in files.items() if not name.startswith("guard/")}


@pytest.mark.parametrize("kind", COUNT_MODELS)
@pytest.mark.parametrize("changes", [{"parts": 3}, {"reverse": True}], ids=["parts", "reversed"])
def test_parts_and_order_do_not_matter(
    kind: str, changes: dict[str, Any], data: Any, data_of: DataMaker, tmp_path: Path
) -> None:
    one = _files(kind, data, tmp_path / "one")
    changed = data_of(USUAL, USUAL_CLICKS, min_users=2, days=USUAL_DAYS, **changes)
    assert one == _files(kind, changed, tmp_path / "other")


@pytest.mark.parametrize("kind", COUNT_MODELS)
@pytest.mark.parametrize("ages", [{}, {"half_life_days": 3, "window_days": 8}], ids=["all", "aged"])
def test_duckdb_makes_the_same_model(
    kind: str, ages: dict[str, int], data: PreparedData, tmp_path: Path
) -> None:
    one = _files(kind, data, tmp_path / "one", "polars", **ages)
    assert one == _files(kind, data, tmp_path / "other", "duckdb", **ages)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_makes_the_same_model(data: PreparedData, tmp_path: Path) -> None:
    one = _files("cacb", data, tmp_path / "one", depth=1)
    assert one == _files("cacb", data, tmp_path / "other", "spark", depth=1)


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_only_queries_of_enough_users_are_suggested(kind: str, data_of: DataMaker) -> None:
    sessions = [*USUAL, *[("eve", ["paris", "eves secret"])] * 99]
    clicks = [*USUAL_CLICKS, ("eve", "eves secret", "https://example/secret")]
    model, control = (
        fit_model(count_model(kind), data_of(sessions, clicks, min_users=users), **_hits(kind))
        for users in (2, 1)
    )
    assert "eves secret" not in {item.text for item in model.suggest(["paris"], 100)}
    assert "eves secret" in {item.text for item in control.suggest(["paris"], 100)}


@pytest.mark.parametrize("kind", COUNT_MODELS)
@pytest.mark.parametrize(
    "context", [[], ["paris"], ["rome map", "oslo"], ["paris hotels cheap"], ["zyzzyva"]]
)
def test_probabilities_sum_to_at_most_one(
    kind: str, context: list[str], fitted: Callable[[str], CountSuggester[Any]]
) -> None:
    model = fitted(kind)
    known = sorted({query for _, queries in USUAL for query in queries})
    # Every text of one word (the unknown word stands for all others) and some of two.
    rest = [*WORDS, "zyzzyva", *(f"{word} {topic}" for word in WORDS for topic in TOPICS)]
    total = sum(exp(item.log_likelihood) for item in model.score(context, known + rest))
    assert 0.5 < total <= 1


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_a_log_without_known_queries_is_refused(kind: str, data_of: DataMaker) -> None:
    data = data_of([("ann", ["paris", "rome"])], min_users=2)
    with pytest.raises(InputError, match="no query was typed by 2 users"):
        fit_model(count_model(kind), data)


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_no_file_of_a_model_can_carry_code(kind: str, data: PreparedData, tmp_path: Path) -> None:
    names = _files(kind, data, tmp_path / "model")
    assert {Path(name).suffix for name in names} <= {".npy", ".trie"}
    for name in names:
        if name.endswith(".npy"):
            assert b"'descr': '|O'" not in (tmp_path / "model" / name).read_bytes()[:128]


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_a_truncated_file_is_a_clear_error(kind: str, data: PreparedData, tmp_path: Path) -> None:
    names = _files(kind, data, tmp_path / "model")
    for name in names:
        file = tmp_path / "model" / name
        whole = file.read_bytes()
        file.write_bytes(whole[:9])
        with pytest.raises(ArtifactError, match=name):
            load(tmp_path / "model")
        file.write_bytes(whole)
    assert load(tmp_path / "model").suggest(["paris"])


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_specificity_ranks_by_what_the_session_adds(
    kind: str, fitted: Callable[[str], CountSuggester[Any]]
) -> None:
    model = fitted(kind)
    for context in (["paris"], ["rome map", "oslo"], []):
        result = model.suggest(context, 6, specificity=0.5)
        assert [item.score for item in result] == sorted((i.score for i in result), reverse=True)
        texts = [item.text for item in result]
        after, before = model.score(context, texts), model.score([], texts)
        for item, one, other in zip(result, after, before, strict=True):
            assert item.log_likelihood == pytest.approx(one.log_likelihood)
            assert item.log_prior == pytest.approx(other.log_likelihood)
            if kind in ("adjacency", "qvmm", "popularity"):
                value = one.log_likelihood - 0.5 * other.log_likelihood
                assert item.score == pytest.approx(value)


def test_specificity_lifts_what_follows_here_over_what_follows_everywhere(
    data_of: DataMaker,
) -> None:
    sessions = [(f"u{n}", ["oslo", "google"]) for n in range(20)]
    sessions += [(f"v{n}", ["paris", "google"]) for n in range(4)]
    sessions += [(f"w{n}", ["paris", "louvre"]) for n in range(3)]
    model = fit_model(count_model("adjacency"), data_of(sessions, min_users=2))
    first = [model.suggest(["paris"], 1, specificity=share)[0].text for share in (0.0, 0.5)]
    assert first == ["google", "louvre"]


COMPLETED_SESSIONS = [
    ("u1", ["red shoes", "red boots"]),
    ("u2", ["red shoes", "red boots"]),
    ("u3", ["blue hat", "red scarf"]),
    ("u4", ["red boots", "green bag"]),
]


@pytest.fixture
def completion(data_of: DataMaker, tmp_path: Path) -> Any:
    fit_model(Adjacency, data_of(COMPLETED_SESSIONS)).save(tmp_path / "model")
    return load(tmp_path / "model")


def test_known_queries_with_the_beginning_most_likely_first(completion: Any) -> None:
    # "red boots" was typed 3 times, "red shoes" twice, "red scarf" once.
    assert texts(completion.complete([], "RED", 5)) == ["red boots", "red shoes", "red scarf"]
    assert texts(completion.complete([], "red s", 5)) == ["red shoes", "red scarf"]
    assert texts(completion.complete([], "red ", 1)) == ["red boots"]


def test_the_session_decides_the_order(completion: Any) -> None:
    # After "blue hat" only "red scarf" was ever typed.
    assert texts(completion.complete(["blue hat"], "red", 5))[0] == "red scarf"


def test_a_query_of_the_session_is_not_offered_again(completion: Any) -> None:
    assert "red boots" not in texts(completion.complete(["Red boots"], "red", 5))


def made_sessions(count: int) -> list[tuple[str, list[str]]]:
    """Sessions over a few hundred queries, most of which come once or twice."""
    draw = random.Random(5)
    words = [f"{letter}{number}" for letter in "ab" for number in range(12)]
    return [
        (f"u{n}", [" ".join(draw.choices(words, k=draw.choice((1, 1, 2)))) for _ in range(3)])
        for n in range(count)
    ]


@pytest.mark.parametrize("kind", COUNT_MODELS)
@pytest.mark.parametrize("refused", [False, True], ids=["all allowed", "some blocked"])
def test_completions_are_the_likeliest_of_all_known_queries(
    kind: str,
    refused: bool,
    data_of: DataMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(count_suggester, "FREQUENT", 2)
    sessions = made_sessions(150)
    clicks = [(user, queries[-1], f"u{len(queries[-1]) % 3}.com") for user, queries in sessions]
    data = data_of(sessions, clicks=clicks)
    fit_model(count_model(kind), data).save(tmp_path / "model")
    if refused:
        (tmp_path / "blocked.txt").write_text("a1\na5\nb2\n")
    model: Any = load(tmp_path / "model", blocklist=tmp_path / "blocked.txt" if refused else None)
    known = model.guard.tables.queries
    for context in ([], sessions[0][1][:1], sessions[1][1][:2], ["b3"], ["never seen"]):
        for prefix in ("a", "a1", "b2 ", "b"):
            possible = [
                text
                for text in known.keys(prefix)
                if text not in context and model.guard.refusal(text) is None
            ]
            scores = (item.log_likelihood for item in model.score(context, possible))
            result = model.complete(context, prefix, 4)
            assert set(texts(result)) <= set(possible)
            # by score: equally likely ones may differ in the last digit
            best = pytest.approx(sorted(scores, reverse=True)[:4])
            assert [item.score for item in result] == best, (context, prefix)


def test_any_model_can_give_a_diverse_list(data_of: DataMaker, tmp_path: Path) -> None:
    fit_model(Popularity, data_of(COMPLETED_SESSIONS)).save(tmp_path / "model")
    model = load(tmp_path / "model")
    assert isinstance(model, Adjustable)
    assert texts(model.suggest([], 2, diversity=0.0)) == ["red boots", "red shoes"]
    assert texts(model.suggest([], 2, diversity=0.9)) == ["red boots", "blue hat"]


@pytest.mark.parametrize("wrong", [{"half_life_days": 0}, {"window_days": 0}])
def test_ages_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgingSettings(**wrong)


OLD = [("ann", ["red", "old end"]), ("bob", ["red", "old end"]), ("cat", ["blue", "red"])]
NEW = [("dan", ["red", "new end"]), ("eve", ["blue", "red"])]
AGED_CLICKS = [(user, queries[-1], f"http://{queries[-1]}") for user, queries in (*OLD, *NEW)]
ANSWERS = ("old end", "new end")


def _fitted(aged_data: Any, kind: str, **settings: float) -> Any:
    model_type = count_model(kind)
    # In a log this small the prior, which has no age, would outweigh what was seen.
    settings |= {"escape": 0.1} if kind in ("qvmm", "cacb") else {}
    # To rescue, "red" fails.
    hits = (lambda query: query != "red") if kind == "rescue" else None
    chosen = model_type.settings_type(**settings)
    return fit_model(model_type, aged_data, chosen, hits=hits)


@pytest.fixture(scope="module")
def aged_data(data_of: DataMaker) -> Any:
    return data_of([*OLD, *NEW], AGED_CLICKS, days=[0, 0, 0, 20, 20])


def test_days_are_weighed_by_hand() -> None:
    days = [date(2024, 1, 1), date(2024, 1, 11), date(2024, 1, 21)]
    daily = pl.DataFrame({"query": ["a", "a", "b"], "day": days, "count": [4, 2, 1]})
    half = Ages(AgingSettings(half_life_days=10), days[-1]).weigh(daily, ["query"])
    assert half.rows() == [("a", 4 / 4 + 2 / 2), ("b", 1.0)]
    # The last eleven days: the first of them is ten days old.
    cut = Ages(AgingSettings(window_days=11), days[-1]).weigh(daily, ["query"])
    assert cut.rows() == [("a", 2), ("b", 1)]
    assert cut.schema["count"] == pl.Int64
    shorter = Ages(AgingSettings(window_days=10), days[-1]).weigh(daily, ["query"])
    assert shorter.rows() == [("b", 1)]


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_what_is_recent_comes_first_with_a_half_life(kind: str, aged_data: Any) -> None:
    plain, aged = _fitted(aged_data, kind), _fitted(aged_data, kind, half_life_days=5)
    orders = [
        [item.text for item in model.suggest(["red"], 10) if item.text in ANSWERS]
        for model in (plain, aged)
    ]
    assert orders[0][0] == "old end"
    assert orders[1][0] == "new end"


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_queries_outside_the_window_are_not_suggested(kind: str, aged_data: Any) -> None:
    model = _fitted(aged_data, kind, window_days=10)
    shown = [item.text for item in model.suggest(["red"], 10)]
    assert "new end" in shown
    assert "old end" not in shown
    assert all(exp(item.log_likelihood) > 0 for item in model.score(["red"], ["old end", "none"]))


def test_weights_by_hand_in_adjacency(aged_data: Any) -> None:
    model = _fitted(aged_data, "adjacency", half_life_days=10)
    # After red: old end twice, 20 days before the last day, weighs 2/4; new end 1. P(q) is 2/10
    # and 1/10 of the whole background, one observation imagined.
    old, new = model.score(["red"], list(ANSWERS))
    assert exp(old.log_likelihood) == pytest.approx((0.5 + 2 / 11) / 2.5)
    assert exp(new.log_likelihood) == pytest.approx((1 + 1 / 11) / 2.5)
    assert [item.source for item in model.suggest(["red"], 2)] == [
        "seen in the log (1 time after the last query)"
    ] * 2


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_models_of_aged_counts_come_back(kind: str, aged_data: Any, tmp_path: Path) -> None:
    model = _fitted(aged_data, kind, half_life_days=3.0, window_days=30)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").suggest(["red"], 5) == model.suggest(["red"], 5)


CLICKED_SESSIONS = [
    *((f"a{n}", ("shoes", "boots")) for n in range(24)),
    *((f"b{n}", ("shoes", "socks")) for n in range(20)),
]
SOCK_CLICKS = [(f"b{n}", "socks", "https://example/socks") for n in range(20)]
WEIGHED = AdjacencySettings(useful_weight=4)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_useful_followers_count_for_more(data_of: DataMaker, engine: str) -> None:
    data = data_of(CLICKED_SESSIONS, clicks=SOCK_CLICKS)
    assert followers(fit_model(Adjacency, data), "shoes") == {"boots": 24, "socks": 20}
    weighed = fit_model(Adjacency, data, WEIGHED, engine=engine)
    # Undecided: 1 of 2 imaginary ones. Typed 44 + 24 + 20 times, 10 of them useful.
    ordinary = 10 / 88
    boots = 24 * (1 + 3 * (0 + 10 * ordinary) / 34)
    socks = 20 * (1 + 3 * (10 + 10 * ordinary) / 30)
    assert followers(weighed, "shoes") == pytest.approx({"boots": boots, "socks": socks})
    assert texts(weighed.suggest(["shoes"], 2)) == ["socks", "boots"]


BOTH_CLICKED = [
    *(*SOCK_CLICKS, ("a0", "boots", "https://example/boots")),
    *((f"a{n}", "shoes", "https://example/boots") for n in range(24)),
]
TWO_TOPICS = [*SOCK_CLICKS, *((f"a{n}", "boots", "https://example/boots") for n in range(2))]


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_every_kind_takes_it(data_of: DataMaker, kind: str) -> None:
    """Boots are typed more often, socks are clicked; to rescue, shoes fail."""
    clicks = {"rescue": SOCK_CLICKS, "cacb": TWO_TOPICS}.get(kind, BOTH_CLICKED)
    data = data_of(CLICKED_SESSIONS, clicks=clicks)
    hits = (lambda query: query != "shoes") if kind == "rescue" else None
    asked = {"satisfactory": False} if kind == "shortcuts" else {}
    model_type: type[CountSuggester[Any]] = count_model(kind)
    first = []
    for weight in (1, 20):
        settings = model_type.settings_type.model_validate({"useful_weight": weight, **asked})
        first += texts(fit_model(model_type, data, settings, hits=hits).suggest(["shoes"], 1))
    assert first == ["boots", "socks"]


def test_concepts_are_weighed_by_all_their_queries() -> None:
    typed, useful = np.array([10.0, 20.0, 10.0]), np.array([10.0, 0.0, 10.0])
    factors = count_factors(typed, useful, 2, np.array([0, 0, 1]))
    assert factors == pytest.approx([1 + (10 + 5) / 40, 1 + (10 + 5) / 20])


def test_what_is_typed_again_at_once_is_not_useful(data_of: DataMaker) -> None:
    """In the test data the queries of a session are a minute apart."""
    again = [*CLICKED_SESSIONS, *((f"c{n}", ("boots", "hats")) for n in range(5))]
    clicks = [*SOCK_CLICKS, *((f"c{n}", "boots", "https://example/boots") for n in range(5))]
    model = fit_model(Adjacency, data_of(again, clicks=clicks), WEIGHED)
    # Five clicked and followed, none of them useful: an undecided one is useful 1 time in 7.
    ordinary = (20 / 7) / 98
    assert followers(model, "shoes")["boots"] == pytest.approx(24 * (1 + 3 * 10 * ordinary / 39))


SESSIONS = [(f"u{n}", ["red shoes", "red boots"]) for n in range(3)]
CLICKS = [("u1", "red boots", "http://a")]


def test_a_fitted_model_saves_what_its_guard_needs(data_of: DataMaker, tmp_path: Path) -> None:
    data = data_of(SESSIONS, CLICKS, min_users=2)
    fit_model(count_model("adjacency"), data).save(tmp_path / "fitted")
    load(tmp_path / "fitted").save(tmp_path / "again")
    for file in (tmp_path / "fitted" / "guard").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / "guard" / file.name).read_bytes()


def test_asking_a_model_needs_no_table_engine(data_of: DataMaker, tmp_path: Path) -> None:
    data = data_of(SESSIONS, CLICKS)
    for kind in COUNT_MODELS:
        fit_model(count_model(kind), data).save(tmp_path / kind)
    code = (
        "import sys, nextquery\n"
        "for folder in sys.argv[1:]: nextquery.load(folder).suggest(['red shoes'])\n"
        "engines = ('polars', 'pyarrow', 'narwhals', 'duckdb')\n"
        "print([name for name in engines if name in sys.modules])"
    )
    folders = [str(tmp_path / kind) for kind in COUNT_MODELS]
    done = subprocess.run(
        [sys.executable, "-c", code, *folders], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_every_setting_has_a_description_for_the_docs(kind: str) -> None:
    settings = count_model(kind).settings_type
    documented = descriptions(settings)
    assert [name for name in settings.model_fields if not documented.get(name)] == []
