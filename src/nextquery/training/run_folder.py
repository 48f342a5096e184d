"""The folder `OUT.training/` of a run: one process at a time, an id of its own, gone at the end.

The id also stands in the finished model's manifest. A run that is killed after its model has
appeared is known by that: its folder is then removed, not gone on with. To be removed, a folder is
first given another name, so that no half of it is ever taken for a run.
"""

import json
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nextquery.artifacts import check_target, open_artifact, write_text
from nextquery.errors import ArtifactError
from nextquery.model.files import KIND

RUN = "run.json"


def folder_of_run(out: Path) -> Path:
    """Where a run keeps its files while it trains the model for `out`.

    >>> folder_of_run(Path("models/hred")).name
    'hred.training'
    """
    return out.with_name(f"{out.name}.training")


def check_folders(out: Path, *, resume: bool) -> None:
    """Refuse to begin where a run is unfinished, and to resume where none is."""
    check_target(out, KIND)
    folder = folder_of_run(out)
    remove_finished(out)
    if folder.exists() and not resume:
        raise ArtifactError(
            f"{folder}: a run that was not finished; add `resume` to go on with it, "
            "or delete that folder to start anew"
        )
    if resume and not folder.exists() and out.exists():
        raise ArtifactError(
            f"{out}: this run is finished; there is nothing to resume"
            if _run_of_model(out)
            else f"{out}: no run of training made it: nothing to resume; leave `resume` out"
        )


def remove_finished(out: Path) -> None:
    """Finish the clean-up of runs that were killed in it."""
    folder = folder_of_run(out)
    run = _stored(folder).get("run")
    if run and run == _run_of_model(out):
        remove(folder)
    pattern = re.compile(re.escape(f".{folder.name}.") + r"[0-9a-f]{8}\.finished")
    with suppress(FileNotFoundError):
        for beside in list(folder.parent.iterdir()):
            if pattern.fullmatch(beside.name):
                shutil.rmtree(beside, ignore_errors=True)


def remove(folder: Path) -> None:
    """Remove the folder of a finished run, at once to the eye of everybody else."""
    away = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.finished")
    with suppress(FileNotFoundError):
        folder.rename(away)
        shutil.rmtree(away, ignore_errors=True)


def run_id(folder: Path, threads: int, compiled: bool, say: Callable[[str], None]) -> str:
    """The id of the run in a folder, made if it has none.

    Says if it had other threads before, or compiled kernels and has none now, or the reverse.
    """
    stored = _stored(folder)
    before = stored.get("threads", threads)
    if before != threads:
        say(f"this run began with {before} threads; with {threads} its weights differ a little")
    if "run" in stored and bool(stored.get("compiled")) != compiled:
        began, goes_on = ("without", "with") if compiled else ("with", "without")
        say(
            f"this run began {began} the compiled kernels of nextquery-native; it goes on "
            f"{goes_on} them, and its weights differ a little"
        )
    if "run" not in stored:
        stored = {"run": uuid.uuid4().hex, "threads": threads, "compiled": compiled}
        write_text(folder / RUN, json.dumps(stored) + "\n")
    return str(stored["run"])


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep the folder to this run; the system lets go of it however the process ends."""
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise ArtifactError(f"{folder}: another process is training there") from None
    try:
        yield
    finally:
        lock.release()


def _stored(folder: Path) -> dict[str, object]:
    try:
        stored = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _run_of_model(out: Path) -> object:
    """The id of the run that made the model at `out`, if it says."""
    try:
        training = open_artifact(out, verify=False).manifest.get("training")
    except ArtifactError:
        return None
    return training.get("run") if isinstance(training, dict) else None
