"""The systems of an experiment, and models trained for some users."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError
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
from nextquery.ranking.cases import user_fold
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import load
from nextquery.suggesters.popularity import Popularity


@pytest.mark.parametrize(
    "names", [["adj"], ["baseline"], ["a:b"], ["a+b"], ["A"], [""], ["x", "x"]]
)
def test_names_that_the_report_uses_itself_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match="`model`"):
        check_names(names)


def test_other_names_are_fine() -> None:
    check_names(["hred", "hred-copy", "mine_2"])


def test_a_log_without_clicks_has_no_system_that_needs_them(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    sessions = [("u", ("a", "b", "c")), ("v", ("a", "b"))]
    clicks = [("u", "c", "x.example"), ("v", "b", "x.example")]
    found = []
    for log in (tiny_log(sessions), tiny_log(sessions, clicks)):
        with open_systems(prepared(log), tmp_path / "models", {}, {}, {}) as systems:
            found.append(set(systems.count_models))

    assert found[0] == set(COUNT_MODELS) - {"cacb", "ss"}
    assert found[1] == set(COUNT_MODELS)


def test_several_folders_are_one_system_with_the_mean_probability(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    logs = [[("u", ("a", "b")), ("v", ("a", "c"))], [("u", ("a", "b")), ("v", ("b", "a"))]]
    data = [prepared(tiny_log(log)) for log in logs]
    folders = tuple(tmp_path / f"model-{number}" for number in range(2))
    for each, folder in zip(data, folders, strict=True):
        fit_model(Popularity, each).save(folder)
    with open_systems(data[0], tmp_path / "counts", {"both": folders}, {}, {}) as systems:
        (found,) = systems.models["both"].score((), ["c"])

    alone = [load(folder).score((), ["c"])[0].log_likelihood for folder in folders]
    assert alone[0] != alone[1]
    assert np.exp(found.log_likelihood) == pytest.approx(np.mean(np.exp(alone)))
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


@pytest.mark.slow
def test_each_fold_model_has_not_seen_its_users_and_is_trained_once(
    small_data: PreparedData, tmp_path: Path, config: str
) -> None:
    paths = train_fold_models(small_data, tmp_path / "folds", config, 2)
    trained = [open_artifact(path).manifest["training"]["words"] for path in paths]
    before = [(path / "manifest.json").stat().st_mtime_ns for path in paths]
    again = train_fold_models(small_data, tmp_path / "folds", config, 2)

    words = {
        fold: sum(
            len(query.split()) + 1
            for session in small_data.sessions("background")
            for query in session.queries
            if user_fold(session.user, 2) != fold
        )
        for fold in (0, 1)
    }
    assert trained == [words[0], words[1]]
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
    words = sum(
        len(query.split()) + 1
        for session in small_data.sessions("background")
        for query in session.queries
        if user_fold(session.user, 8) == 0
    )
    found = open_artifact(out).manifest
    assert found["training"]["words"] == 2 * words
    assert found["settings"]["train"]["epochs"] == 2


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

    found = write_user_subset(small_data, tmp_path / "half", keep, ("background",))

    kept = {session.user for session in found.sessions("background")}
    assert kept == {s.user for s in small_data.sessions("background") if keep(s.user)}
    assert list(found.sessions("test")) == list(small_data.sessions("test"))
    counts = found.artifact.manifest["counts"]["sessions"]
    assert counts["background"] == len(list(found.sessions("background")))
    assert found.min_users == small_data.min_users
    found.artifact.verify()


def test_a_whole_background_keeps_its_tables(small_data: PreparedData, tmp_path: Path) -> None:
    found = write_user_subset(small_data, tmp_path / "same", lambda user: False, ("test",))

    assert list(found.sessions("test")) == []
    assert found.counts("clicks").collect().equals(small_data.counts("clicks").collect())
    assert found.words() == small_data.words()
