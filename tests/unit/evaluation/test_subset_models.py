from pathlib import Path

import pytest

from nextquery.artifacts import open_artifact
from nextquery.evaluation.systems import config_identity, train_fold_models, train_on_users
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import user_fold
from nextquery.suggesters.loading import load

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
