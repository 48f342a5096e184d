"""The systems of an experiment, models trained for some users, checks of a new model, and drift."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import ArtifactError, InputError
from nextquery.evaluation.check import (
    Case,
    check,
    draw_cases,
    interval_by_user,
    promote,
    shorter_queries,
)
from nextquery.evaluation.drift import drift, perplexity
from nextquery.evaluation.lists import rank_in
from nextquery.evaluation.settings import CheckSettings
from nextquery.evaluation.systems import (
    COUNT_MODELS,
    check_names,
    config_identity,
    count_tables,
    identity,
    open_systems,
    train_fold_models,
    train_on_users,
    write_user_subset,
)
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.ranking.cases import user_fold
from nextquery.records import ScoredQuery
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import check_file, fingerprint, load, require_check, write_check
from nextquery.suggesters.popularity import Popularity


@pytest.mark.parametrize(
    "names", [["adj"], ["baseline"], ["a:b"], ["a+b"], ["A"], [""], ["x", "x"]]
)
def test_names_that_the_report_uses_itself_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match="`model`"):
        check_names(names)


def test_a_log_without_clicks_has_no_system_that_needs_them(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    sessions = [("u", ("a", "b", "c")), ("v", ("a", "b"))]
    clicks = [("u", "c", "x.example"), ("v", "b", "x.example")]
    result = []
    for log in (tiny_log(sessions), tiny_log(sessions, clicks)):
        with open_systems(prepared(log), tmp_path / "models", {}, {}, {}) as systems:
            result.append(set(systems.count_models))

    assert result[0] == set(COUNT_MODELS) - {"cacb", "ss"}
    assert result[1] == set(COUNT_MODELS)


def test_several_folders_are_one_system_with_the_mean_probability(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    logs = [[("u", ("a", "b")), ("v", ("a", "c"))], [("u", ("a", "b")), ("v", ("b", "a"))]]
    data = [prepared(tiny_log(log)) for log in logs]
    folders = tuple(tmp_path / f"model-{number}" for number in range(2))
    for item, folder in zip(data, folders, strict=True):
        fit_model(Popularity, item).save(folder)
    with open_systems(data[0], tmp_path / "counts", {"both": folders}, {}, {}) as systems:
        (result,) = systems.models["both"].score((), ["c"])

    alone = [load(folder).score((), ["c"])[0].log_likelihood for folder in folders]
    assert alone[0] != alone[1]
    assert np.exp(result.log_likelihood) == pytest.approx(np.mean(np.exp(alone)))
    assert identity(folders) == [identity(folder) for folder in folders]
    assert identity(folders) != identity(folders[::-1])


CONFIG = """
[model]
vocabulary_size = 500
embedding_size = 8
query_size = 8
session_size = 8
[train]
epochs = 1
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "smallest.toml"
    path.write_text(CONFIG)
    return str(path)


def test_a_config_is_recognised_by_its_content(tmp_path: Path, config: str) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("paris 1 2\n")
    other = tmp_path / "other.toml"
    other.write_text(CONFIG)
    assert config_identity(str(other)) == config_identity(config), "the name does not count"
    other.write_text(CONFIG.replace("epochs = 1", "epochs = 2"))
    assert config_identity(str(other)) != config_identity(config)
    other.write_text(f'{CONFIG}word_vectors = "{vectors}"\n')
    before = config_identity(str(other))
    vectors.write_text("paris 1 3\n")
    assert config_identity(str(other)) != before, "files that it names count, too"


def symbols_of_fold(data: PreparedData, fold: int, folds: int) -> int:
    """The words and ends of queries in the background of a fold's users."""
    return sum(
        len(query.split()) + 1
        for session in data.sessions("background")
        for query in session.queries
        if user_fold(session.user, folds) == fold
    )


@pytest.mark.slow
def test_each_fold_model_has_not_seen_its_users_and_is_trained_once(
    small_data: PreparedData, tmp_path: Path, config: str
) -> None:
    paths = train_fold_models(small_data, tmp_path / "folds", config, 2)
    trained = [open_artifact(path).manifest["training"]["words"] for path in paths]
    before = [(path / "manifest.json").stat().st_mtime_ns for path in paths]
    again = train_fold_models(small_data, tmp_path / "folds", config, 2)

    assert trained == [symbols_of_fold(small_data, 1, 2), symbols_of_fold(small_data, 0, 2)]
    assert again == paths
    assert [(path / "manifest.json").stat().st_mtime_ns for path in again] == before
    assert load(paths[0]).suggest(["paris"]) is not None
    assert not list((tmp_path / "folds").glob("*.data"))


@pytest.mark.slow
def test_fewer_users_can_be_gone_through_more_often(
    small_data: PreparedData, tmp_path: Path, config: str
) -> None:
    out = train_on_users(
        small_data,
        tmp_path / "eighth",
        config,
        lambda user: user_fold(user, 8) == 0,
        ("background",),
        "an eighth",
        repeats=2,
    )
    result = open_artifact(out).manifest
    assert result["training"]["words"] == 2 * symbols_of_fold(small_data, 0, 8)
    assert result["settings"]["train"]["epochs"] == 2


TABLES = ("queries", "words", "word_pairs", "followers")


def test_all_users_give_the_folder_that_prepare_made(
    small_data: PreparedData, tmp_path: Path
) -> None:
    same = write_user_subset(small_data, tmp_path / "all", lambda user: True, small_data.splits)

    for table in TABLES:
        assert same.counts(table).collect().equals(small_data.counts(table).collect())
    assert same.words() == small_data.words()
    assert same.splits == small_data.splits
    for split in same.splits:
        assert list(same.sessions(split)) == list(small_data.sessions(split))


def test_the_k_user_rule_holds_in_a_subset(small_data: PreparedData) -> None:
    rows = small_data.search_rows("background").collect()
    queries = count_tables(rows, min_users=3)["queries"]

    assert len(queries) > 10
    assert queries["users"].min() == 3
    whole = count_tables(rows, min_users=1)["queries"]
    assert len(whole) > len(queries)


def test_left_out_users_are_gone_from_the_splits_named(
    small_data: PreparedData, tmp_path: Path
) -> None:
    def keep(user: str) -> bool:
        return user_fold(user, 2) == 0

    result = write_user_subset(small_data, tmp_path / "half", keep, ("background",))

    kept = {session.user for session in result.sessions("background")}
    assert kept == {s.user for s in small_data.sessions("background") if keep(s.user)}
    assert list(result.sessions("test")) == list(small_data.sessions("test"))
    counts = result.artifact.manifest["counts"]["sessions"]
    assert counts["background"] == len(list(result.sessions("background")))
    assert result.min_users == small_data.min_users
    result.artifact.verify()


PAIRS = [(f"{word} shop", f"{word} prices") for word in ("shoe", "tea", "lamp", "boat", "toy")]


def _prepared(folder: Path, pairs: Sequence[tuple[str, str]], later: Sequence[Any]) -> PreparedData:
    """Sixty users type the pairs on nine days, thirty others the later ones on the tenth."""
    rows = ["AnonID\tQuery\tQueryTime\tItemRank\tClickURL"]
    for day in range(1, 11):
        users, typed = (range(30), later) if day == 10 else (range(100, 160), pairs)
        for user in users:
            first, second = typed[(user + day) % len(typed)]
            for minute, query in enumerate((first, second)):
                rows.append(f"{user}\t{query}\t2006-03-{day:02d} 10:{minute:02d}:00\t\t")
    folder.mkdir()
    (folder / "log.tsv").write_text("\n".join(rows) + "\n")
    settings = PrepareSettings(spelling=False, min_users=1, split_days=".1,.7,.1")
    prepare([folder / "log.tsv"], folder / "data", settings)
    return PreparedData(folder / "data")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[PreparedData, Path]:
    folder = tmp_path_factory.mktemp("check")
    data = _prepared(folder / "good", PAIRS, PAIRS)
    other = _prepared(folder / "bad", [(first, "nothing else") for first, _ in PAIRS], PAIRS)
    fit_model(Adjacency, data).save(folder / "adjacency")
    fit_model(Adjacency, other).save(folder / "bad-model")
    fit_model(Popularity, data).save(folder / "popularity")
    return data, folder


def test_the_same_model_passes(made: tuple[PreparedData, Path]) -> None:
    data, folder = made
    result = check(folder / "adjacency", folder / "adjacency", data)
    assert result.passed, result.reasons
    assert result.users == 30
    assert result.mrr["new"] == result.mrr["old"] == 1.0
    assert result.mrr["popularity"] < 0.5
    assert result.mrr["dropped words"] == 0
    others = [gain.other for gain in result.differences]
    assert others == ["old", "popularity", "dropped words", "old"]


@pytest.mark.parametrize("bad", ["bad-model", "popularity"])
def test_a_worse_model_is_refused(made: tuple[PreparedData, Path], bad: str) -> None:
    data, folder = made
    result = check(folder / bad, folder / "adjacency", data)
    assert not result.passed
    assert any("the old model has 1.0000" in reason for reason in result.reasons)
    better = check(folder / "adjacency", folder / bad, data)
    assert better.passed, better.reasons


def test_a_rule_that_beats_the_old_model_is_not_a_reason_to_keep_it(
    made: tuple[PreparedData, Path],
) -> None:
    data, folder = made
    same = check(folder / "bad-model", folder / "bad-model", data)
    assert same.mrr["new"] < same.mrr["popularity"]
    assert same.passed, same.reasons


def test_few_users_decide_nothing(made: tuple[PreparedData, Path]) -> None:
    data, folder = made
    settings = CheckSettings(min_users=31)
    result = check(folder / "adjacency", folder / "adjacency", data, settings)
    assert "only 30 users have later sessions; 31 are needed" in result.reasons


def test_nothing_later_is_an_error(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log([("u", ["a", "b"])]))
    fit_model(Adjacency, data).save(tmp_path / "model")
    with pytest.raises(InputError, match="no session"):
        check(tmp_path / "model", tmp_path / "model", data)


def test_users_are_drawn_with_all_their_cases() -> None:
    """One person's thousand losses are one person's."""
    differences = np.concatenate([np.full(1000, -1.0), np.ones(10)])
    users = ["one"] * 1000 + [f"u{n}" for n in range(10)]
    low, high = interval_by_user(differences, users)
    assert low < 0 < high
    low, high = interval_by_user(differences, [f"u{n}" for n in range(1010)])
    assert high < 0


def test_cases_and_ranks() -> None:
    rows = pl.DataFrame(
        {
            "session": [1, 1, 1, 2],
            "position": [0, 1, 2, 0],
            "user": ["a", "a", "a", "b"],
            "query": ["x", "y", "x", "z"],
        }
    )
    cases = draw_cases(rows, 10)
    assert cases == [Case("a", ("x",), "y")]  # a repeated query is not asked for
    assert rank_in(["q", "y"], cases[0].query) == 2
    assert shorter_queries(["red shoes", "cheap red shoes"], 2) == ["cheap red", "cheap shoes"]


def test_a_check_is_about_one_model(made: tuple[PreparedData, Path], tmp_path: Path) -> None:
    _, folder = made
    new, old = tmp_path / "new", tmp_path / "old"
    load(folder / "adjacency").save(new)
    load(folder / "popularity").save(old)
    with pytest.raises(ArtifactError, match="was not checked"):
        require_check(new)
    write_check(new, {"passed": True}, fingerprint(new))
    require_check(new)
    write_check(old, {"passed": True}, fingerprint(new))
    with pytest.raises(ArtifactError, match="about another model"):
        require_check(old)
    write_check(new, {"passed": False}, fingerprint(new))
    with pytest.raises(ArtifactError, match="did not pass"):
        require_check(new)
    check_file(new).write_text("{")
    with pytest.raises(ArtifactError, match="cannot be read"):
        require_check(new)


def test_the_copy_is_the_same_model(made: tuple[PreparedData, Path], tmp_path: Path) -> None:
    _, folder = made
    target = tmp_path / "served"
    fit_model(Adjacency, made[0]).save(target)
    promote(folder / "adjacency", target)
    assert fingerprint(target) == fingerprint(folder / "adjacency")
    assert load(target).suggest(["tea shop"])[0].text == "tea prices"


OLD = [(f"a{n}", ("red shoes", "red boots")) for n in range(6)]
OLD += [(f"b{n}", ("blue hats", "blue caps")) for n in range(2)]
SAME = [(f"c{n}", ("red shoes", "red boots")) for n in range(4)]
OTHER = [(f"d{n}", ("new phone", "phone case")) for n in range(4)]


@pytest.fixture
def log(prepared: Any, tiny_log: Any) -> Any:
    def make(sessions: list[Any], days: list[int]) -> PreparedData:
        result: PreparedData = prepared(tiny_log(sessions, days=days, min_users=2))
        result.path.joinpath("vocabulary.txt").write_text("", encoding="utf-8")
        words = result.counts("words").collect()["word"].to_list()
        result.words = lambda: words  # type: ignore[method-assign]
        return result

    return make


def test_the_same_again_needs_nothing(log: Any) -> None:
    result = drift(log([*OLD, *SAME], [0] * 8 + [1] * 4), log(OLD, [0] * 8))
    assert (result.new_sessions, result.new_words, result.vanished_queries) == (4, 0, 0)
    assert (result.unknown_words, result.unknown_queries) == (0.0, 0.0)
    assert not result.retrain


def test_splits_without_sessions_are_not_what_new_sessions_are_compared_with(log: Any) -> None:
    """Of no words all would be unknown, and nothing newer could be worse."""
    old = log(OLD, [0] * 8)
    usual = old.session_rows
    empty = usual("background").head(0)
    old.artifact.entry("counts")["sessions"] |= {"validation": 0, "test": 0}
    old.session_rows = lambda split: usual(split) if split == "background" else empty
    result = drift(log([*OLD, *OTHER], [0] * 8 + [1] * 4), old)
    assert (result.unknown_before, result.unknown_words) == (0.0, 1.0)
    assert result.retrain


def test_new_words_and_vanished_queries_are_named(log: Any, tmp_path: Path) -> None:
    old = log(OLD, [0] * 8)
    fit_model(Adjacency, old).save(tmp_path / "model")
    newer = log([*OLD[:6], *SAME[:1], *OTHER], [0] * 6 + [1] * 5)
    result = drift(newer, old, tmp_path / "model")
    assert {item.text for item in result.frequent_new_words} == {"phone", "new", "case"}
    assert result.frequent_new_words[0].users == 4
    assert {item.text for item in result.frequent_vanished} == {"blue hats", "blue caps"}
    assert result.vanished_share == pytest.approx(4 / 16)
    assert result.unknown_words == pytest.approx(16 / 20)
    assert result.unknown_queries == pytest.approx(8 / 10)
    assert result.fit is not None
    assert result.fit.new > 1.1 * result.fit.old
    assert len(result.reasons) == 2
    assert replace(result, reasons=()).retrain is False


def test_an_older_folder_is_refused(log: Any) -> None:
    with pytest.raises(InputError, match="give the newer folder first"):
        drift(log(OLD, [0] * 8), log([*OLD, *SAME], [0] * 8 + [1] * 4))


class Even:
    """Gives every symbol one chance in eight."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        return [
            ScoredQuery(text, (len(text.split()) + 1) * math.log(1 / 8), len(text.split()) + 1)
            for text in candidates
        ]


def test_perplexity_is_per_symbol() -> None:
    assert perplexity(Even(), [("a", "b c", "d"), ("e", "f")]) == pytest.approx(8)
