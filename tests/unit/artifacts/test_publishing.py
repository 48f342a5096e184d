"""An artifact appears complete or not at all, and nothing else is touched."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nextquery.artifacts import MANIFEST, check_target, files, open_artifact, publish, publishing
from nextquery.errors import ArtifactError

from .conftest import names


def make(target: Path, text: str) -> None:
    with publish(target, "data", {"counts": {"rows": 1}}) as folder:
        (folder / "part.txt").write_text(text)


def content(target: Path) -> str:
    return open_artifact(target).file("part.txt").read_text()


def killed_job(target: Path) -> Path:
    """What a job that was killed before its end leaves next to its target."""
    staging = target.with_name(f".{target.name}.0123abcd.partial")
    (staging / "content").mkdir(parents=True)
    (staging / "lock").touch()
    (staging / "content" / "part.txt").write_text("half")
    return staging


def test_a_failure_leaves_the_old_artifact_and_nothing_else(tmp_path: Path) -> None:
    make(tmp_path / "out", "old")
    with pytest.raises(RuntimeError), publish(tmp_path / "out", "data", {}) as folder:
        (folder / "part.txt").write_text("half")
        raise RuntimeError
    assert content(tmp_path / "out") == "old"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("atomic", [True, False])
def test_publishing_again_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, atomic: bool
) -> None:
    if not atomic:
        monkeypatch.setattr(files, "exchange", lambda one, other: False)
    make(tmp_path / "out", "old")
    make(tmp_path / "out", "new")
    assert content(tmp_path / "out") == "new"
    assert names(tmp_path) == ["out"]


def test_a_foreign_folder_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(ArtifactError, match="not an artifact"):
        make(tmp_path / "photos", "x")
    assert (tmp_path / "photos" / "cat.jpg").exists()


@pytest.mark.parametrize(
    ("old", "new"), [("data", "adjacency"), ("hred", "data"), ("study", "qvmm")]
)
def test_what_is_of_another_sort_is_not_overwritten(tmp_path: Path, old: str, new: str) -> None:
    with publish(tmp_path / "out", old, {}):
        pass
    with (
        pytest.raises(ArtifactError, match=r"out: holds .*whose place .*choose another `out`"),
        publish(tmp_path / "out", new, {}),
    ):
        raise AssertionError("begun")
    assert open_artifact(tmp_path / "out").kind == old


def test_a_model_replaces_another_and_unreadable_folders(tmp_path: Path) -> None:
    for kind in ("hred", "popularity", "data"):
        with publish(tmp_path / "out", kind, {}):
            pass
        assert open_artifact(tmp_path / "out").kind == kind
        if kind == "popularity":
            (tmp_path / "out" / MANIFEST).write_text('{"kind": ')


def test_a_link_is_not_taken_for_what_a_killed_job_left(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / ".m.0123abcd.partial").symlink_to("precious")
    make(tmp_path / "m", "new")
    assert names(tmp_path) == [".m.0123abcd.partial", "m", "precious"]
    assert not names(tmp_path / "precious")


def test_a_folder_that_comes_there_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with (
        pytest.raises(ArtifactError, match="not an artifact"),
        publish(tmp_path / "out", "data", {}),
    ):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "cat.jpg").touch()
    assert names(tmp_path / "out") == ["cat.jpg"]


@pytest.mark.parametrize("neighbour", ["m.v2", "m.0123abcd", "m.0123abcd.partial", "m.x.partial"])
def test_what_a_killed_job_left_of_a_neighbour_is_not_touched(
    tmp_path: Path, neighbour: str
) -> None:
    left = killed_job(tmp_path / neighbour)
    (left / "old").mkdir()
    (left / "old" / MANIFEST).write_text("the neighbour's only copy")
    make(tmp_path / "m", "new")
    assert (left / "old" / MANIFEST).read_text() == "the neighbour's only copy"
    assert names(left) == ["content", "lock", "old"]


def test_an_artifact_whose_name_looks_like_remains_is_kept(tmp_path: Path) -> None:
    make(tmp_path / ".m.0123abcd.partial", "a model of somebody with odd names")
    make(tmp_path / "m", "new")
    assert content(tmp_path / ".m.0123abcd.partial") == "a model of somebody with odd names"


def test_own_remains_are_cleared_but_not_those_of_a_running_job(tmp_path: Path) -> None:
    killed_job(tmp_path / "out")
    with publish(tmp_path / "out", "data", {}) as running:
        (running / "part.txt").write_text("first")
        make(tmp_path / "out", "second")
        assert (running / "part.txt").read_text() == "first"
    assert content(tmp_path / "out") == "first"
    assert names(tmp_path) == ["out"]


def test_a_kill_between_two_renames_is_put_right(tmp_path: Path) -> None:
    make(tmp_path / "out", "old")
    staging = killed_job(tmp_path / "out")
    (tmp_path / "out").replace(staging / "old")
    with pytest.raises(RuntimeError), publish(tmp_path / "out", "data", {}):
        raise RuntimeError
    assert content(tmp_path / "out") == "old"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(5, "Input/output error")])
@pytest.mark.parametrize("way", ["raised", "abandoned"])
def test_an_end_between_two_renames_brings_the_old_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, way: str
) -> None:
    replace = Path.replace

    def fail(path: Path, other: Path) -> Path:
        if path.name == "content":
            if way == "abandoned":  # what a thread does that ends the process
                publishing.abandon()
            raise error
        return replace(path, other)

    make(tmp_path / "out", "old")
    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises((KeyboardInterrupt, OSError)):
        make(tmp_path / "out", "new")
    assert content(tmp_path / "out") == "old"
    assert names(tmp_path) == ["out"]


def test_a_stop_before_the_first_file_takes_the_folders_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publishing, "_clear_remains", stop)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "a" / "b" / "out", "new")
    assert names(tmp_path) == []


def test_nothing_is_published_while_it_is_being_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = publish(tmp_path / "new" / "out", "data", {})
    (running.__enter__() / "part.txt").write_text("half")
    rmtree = shutil.rmtree

    def late(path: Path, ignore_errors: bool) -> None:
        """The job continues at the very moment of the removal."""
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        with pytest.raises(OSError, match="No such file"):
            running.__exit__(None, None, None)
        rmtree(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", late)
    publishing.abandon()
    assert names(tmp_path) == []


def test_everything_is_on_the_disk_before_the_old_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    missing: list[str] = []
    fsync, exchange = os.fsync, files.exchange

    def note(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def look(one: Path, other: Path) -> bool:
        result = [one, *one.rglob("*")]
        missing.extend(path.name for path in result if path.stat().st_ino not in synced)
        return exchange(one, other)

    make(tmp_path / "out", "old")
    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(files, "exchange", look)
    with publish(tmp_path / "out", "data", {}) as folder:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "part.txt").write_text("new")
    assert missing == []
    assert tmp_path.stat().st_ino in synced


def test_half_written_content_is_for_its_owner_only(tmp_path: Path) -> None:
    with publish(tmp_path / "out", "data", {}) as folder:
        assert folder.parent.stat().st_mode & 0o077 == 0
    (tmp_path / "new").mkdir()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "new").stat().st_mode


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    make(tmp_path / "v1", "old")
    (tmp_path / "current").symlink_to("v1")
    make(tmp_path / "current", "new")
    assert (tmp_path / "current").is_symlink()
    assert content(tmp_path / "v1") == "new"
    assert names(tmp_path) == ["current", "v1"]


@pytest.mark.parametrize("name", ["dangling", "loop", "file", "file/out", f"new/{'x' * 256}"])
def test_a_target_that_cannot_be_written_is_one_message(tmp_path: Path, name: str) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    target = tmp_path / name
    with pytest.raises(ArtifactError, match=target.name[:20]):
        make(target, "x")
    assert names(tmp_path) == ["dangling", "file", "loop"]


@pytest.mark.parametrize(
    "name", ["a[1]", "a{b}*?", "back\\slash", "b l a n k", os.fsdecode(b"\xff\xfe"), "x" * 250]
)
def test_names_of_all_kinds(tmp_path: Path, name: str) -> None:
    pl = pytest.importorskip("polars")
    for number in (1, 2):
        with publish(tmp_path / name, "data", {"place": name}) as folder:
            pl.DataFrame({"n": [number]}).write_parquet(folder / "part.parquet")
    file = open_artifact(tmp_path / name).file("part.parquet")
    assert pl.read_parquet(file)["n"].to_list() == [2]
    assert open_artifact(tmp_path / name).manifest["place"] == name
    assert names(tmp_path) == [name]


def test_a_process_about_to_end_can_remove_what_it_has_half_written(tmp_path: Path) -> None:
    running = publish(tmp_path / "out", "data", {})
    (running.__enter__() / "part.txt").write_text("half")
    publishing.abandon()
    assert names(tmp_path) == []
    assert not running.__exit__(RuntimeError, RuntimeError(), None)


def test_an_error_without_a_path_gets_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as raised, publish(tmp_path / "o", "data", {}):
        raise OSError(28, "No space left on device")
    assert raised.value.filename == str(tmp_path / "o")


def test_a_folder_that_is_written_into_while_it_is_removed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark's Java does that has not ended yet."""
    remove = shutil.rmtree
    late: list[Path] = []

    def beside_a_writer(folder: Path, ignore_errors: bool = False) -> None:
        remove(folder, ignore_errors)
        if not late:
            late.append(folder / "content" / "late")
            late[0].mkdir(parents=True)

    monkeypatch.setattr(shutil, "rmtree", beside_a_writer)
    with suppress(ValueError), publish(tmp_path / "out", "data", {}):
        raise ValueError
    assert late
    assert names(tmp_path) == []


PUBLISHES = """
import sys
from pathlib import Path
from nextquery.artifacts import files, publish
if sys.argv[2] == "renames":
    files.exchange = lambda one, other: False
sys.stdin.readline()
for number in range(20):
    with publish(Path(sys.argv[1]) / "deep" / "out", "data", {"number": number}) as folder:
        (folder / "part.txt").write_text(str(number))
        assert folder.parent.stat().st_mode & 0o077 == 0, "others can read what is being written"
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_jobs_with_the_same_target_do_not_disturb_each_other(tmp_path: Path, way: str) -> None:
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISHES, str(tmp_path), way],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    for job in jobs:
        assert job.stdin is not None
        job.stdin.write(b"begin\n")
        job.stdin.flush()
    assert [job.communicate(timeout=120)[1] for job in jobs] == [b""] * len(jobs)
    assert content(tmp_path / "deep" / "out") == "19"
    assert names(tmp_path / "deep") == ["out"]


def test_a_folder_removed_before_it_is_locked_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job takes the new folder for remains in the moment before its lock."""
    mkdir = Path.mkdir
    removed: list[Path] = []

    def make_and_lose(path: Path, mode: int = 0o777, **options: bool) -> None:
        mkdir(path, mode, **options)
        if path.suffix == ".partial" and not removed:
            removed.append(path)
            assert publishing.claim_remains(path) is None

    monkeypatch.setattr(Path, "mkdir", make_and_lose)
    with publish(tmp_path / "out", "data", {}) as folder:
        assert not removed[0].exists()
        assert folder.parent.stat().st_mode & 0o077 == 0


def test_remains_that_were_half_removed_are_cleared(tmp_path: Path) -> None:
    (killed_job(tmp_path / "out") / "lock").unlink()
    make(tmp_path / "out", "new")
    assert names(tmp_path) == ["out"]


@pytest.fixture
def mount_point(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "mount point"
    folder.mkdir()
    (tmp_path / "same disk").mkdir()
    mount = ["mount", "--bind", str(tmp_path / "same disk"), str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_mount_point_is_refused_before_the_work(mount_point: Path) -> None:
    with pytest.raises(ArtifactError, match=r"mount point.*choose a folder in it"):
        publish(mount_point, "data", {}).__enter__()
    check_target(mount_point, "report", in_place=True)
    make(mount_point / "out", "new")
    assert content(mount_point / "out") == "new"


FULL_DISK = """
import resource, sys
from pathlib import Path
import duckdb
from nextquery.artifacts import publish
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    with publish(Path(sys.argv[1]) / "out", "data", {}) as folder:
        rows = duckdb.sql("select hash(i) as n from range(100_000) t(i)")
        rows.write_parquet(str(folder / "part.parquet"))
except OSError as error:
    print(error.strerror, error.filename == str(Path(sys.argv[1]) / "out"))
"""


def test_an_error_of_duckdb_is_one_of_the_system(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    done = subprocess.run(
        [sys.executable, "-B", "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("File too large True\n", "")
    assert names(tmp_path) == []
