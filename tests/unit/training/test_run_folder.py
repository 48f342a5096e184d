"""A run's folder belongs to one process, and no half of it is ever taken for a run."""

from pathlib import Path

import pytest

from nextquery.artifacts import publish
from nextquery.errors import ArtifactError
from nextquery.training.run import RUN, check_folders, claimed, folder_of_run, remove, run_id


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The place of a model whose run has begun."""
    folder_of_run(tmp_path / "m").mkdir()
    return tmp_path / "m"


def silent(text: str) -> None:
    raise AssertionError(text)


def finish(out: Path, run: str) -> None:
    with publish(out, "hred", {"training": {"run": run}}):
        pass


def test_a_folder_is_trained_in_by_one_process_only(tmp_path: Path) -> None:
    with claimed(tmp_path / "run"), pytest.raises(ArtifactError, match="another process"):
        claimed(tmp_path / "run").__enter__()
    with claimed(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()


def test_an_unfinished_run_is_resumed_or_refused(out: Path) -> None:
    check_folders(out, resume=True)
    with pytest.raises(ArtifactError, match="not finished"):
        check_folders(out, resume=False)


def test_a_count_model_is_no_finished_run(tmp_path: Path) -> None:
    with publish(tmp_path / "m", "adjacency", {}):
        pass
    with pytest.raises(ArtifactError, match="no run of training made it"):
        check_folders(tmp_path / "m", resume=True)


def test_a_finished_run_is_not_resumed(out: Path) -> None:
    finish(out, run_id(folder_of_run(out), 1, silent))
    remove(folder_of_run(out))
    with pytest.raises(ArtifactError, match="this run is finished"):
        check_folders(out, resume=True)
    check_folders(out, resume=False)


def test_a_run_killed_before_its_clean_up_is_finished(out: Path) -> None:
    finish(out, run_id(folder_of_run(out), 1, silent))
    with pytest.raises(ArtifactError, match="this run is finished"):
        check_folders(out, resume=True)
    assert [path.name for path in out.parent.iterdir()] == ["m"]


def test_a_run_killed_in_its_clean_up_is_finished(out: Path) -> None:
    run = run_id(folder_of_run(out), 1, silent)
    finish(out, run)
    folder_of_run(out).rename(out.with_name(".m.training.0123abcd.finished"))
    with pytest.raises(ArtifactError, match="this run is finished"):
        check_folders(out, resume=True)
    assert [path.name for path in out.parent.iterdir()] == ["m"]


def test_a_run_that_would_replace_another_ones_model_goes_on(out: Path) -> None:
    run_id(folder_of_run(out), 1, silent)
    finish(out, "the run before")
    check_folders(out, resume=True)
    assert folder_of_run(out).is_dir()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"run": null}'])
def test_a_folder_without_an_id_is_no_finished_run(out: Path, content: str) -> None:
    (folder_of_run(out) / RUN).write_text(content)
    with publish(out, "hred", {"training": {}}):
        pass
    check_folders(out, resume=True)
    assert folder_of_run(out).is_dir()


def test_only_own_remains_are_removed(out: Path) -> None:
    others = [".m.training.v2.0123abcd.finished", ".m.training.0123abcd.other", ".m.training"]
    for name in others:
        (out.parent / name).mkdir()
    check_folders(out, resume=True)
    assert all((out.parent / name).is_dir() for name in others)


def test_an_id_stays_and_other_threads_are_said(out: Path) -> None:
    said: list[str] = []
    first = run_id(folder_of_run(out), 1, said.append)
    assert run_id(folder_of_run(out), 1, said.append) == first
    assert said == []
    assert run_id(folder_of_run(out), 2, said.append) == first
    assert said == ["this run began with 1 threads; with 2 its weights differ a little"]


def test_a_run_of_the_compiled_training_kernels_is_resumed_with_a_notice(out: Path) -> None:
    said: list[str] = []
    (folder_of_run(out) / RUN).write_text('{"run": "0af3", "threads": 1, "compiled": true}')
    assert run_id(folder_of_run(out), 1, said.append) == "0af3"
    (text,) = said
    assert "began with compiled kernels" in text
