"""Fetching a log from where it lies: into a folder beside the data folder, then read as files.

OUT.fetched/        for its owner only; stays if the job is cut off, so that the next run with
                    the same `--out` goes on from there, and is removed when it has succeeded
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nextquery.errors import InputError
from nextquery.logs.sources.datasets import fetch_dataset
from nextquery.logs.sources.opensearch import fetch_indices

FILES, OPENSEARCH, IR_DATASETS = SOURCES = ("files", "opensearch", "ir_datasets")

Progress = Callable[[str, float], None]


def check_source(source: str, logs: Sequence[str], indices: Sequence[str]) -> None:
    """Refuse a source that there is not, and what does not go with it."""
    if source not in SOURCES:
        raise InputError(f"`source` {source}: not one of {', '.join(SOURCES)}")
    if source != FILES and len(logs) != 1:
        raise InputError(f"`source` {source}: give one address or name, not {len(logs)}")
    if source == OPENSEARCH and not indices:
        raise InputError("`index`: opensearch needs it, such as ubi_queries,ubi_events")
    if source != OPENSEARCH and indices:
        raise InputError(f"`index` goes with opensearch, not with {source}")


@contextmanager
def fetched_logs(
    source: str, logs: Sequence[str], indices: Sequence[str], out: Path, progress: Progress
) -> Iterator[Sequence[str | Path]]:
    """The logs as files: those given, or what the source has."""
    check_source(source, logs, indices)
    if source == FILES:
        yield logs
        return
    folder = out.parent / f"{out.name}.fetched"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if source == OPENSEARCH:
        yield fetch_indices(logs[0], indices, folder, progress)
    else:
        yield fetch_dataset(logs[0], folder, progress)
    shutil.rmtree(folder)
