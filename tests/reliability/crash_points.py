"""A publication killed at every line it executes: what does a reader find then?

    python -m tests.reliability.crash_points FOLDER WAY STEP

WAY is `publish`, or `rename_twice` for the control: the old artifact is moved away, then the new
one put in its place. Every STEP-th line is tried. Prints how many points were tried, at how many a
reader found the old or the new artifact complete, and at how many the next publication put all in
order.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from nextquery.artifacts import open_artifact, publish, write_manifest

WATCHED = ("/nextquery/artifacts/", "/shutil.py", "/pathlib.py", "/crash_points.py")


def main(folder: Path, way: str, step: int) -> dict[str, int]:
    """Kill at one line after the other until a publication gets through."""
    counts = {"points": 0, "readable": 0, "put_right": 0}
    line = 0
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        target = folder / "out"
        write(target, "old")
        if not _killed(target, way, line):
            return counts
        counts["points"] += 1
        counts["readable"] += _is_whole(target)
        try:
            write(target, "again")
            counts["put_right"] += [path.name for path in folder.iterdir()] == ["out"]
        except Exception as error:
            print(f"line {line}: {error!r}", file=sys.stderr)
        line += step


def write(target: Path, text: str) -> None:
    """Publish three files with one text."""
    with publish(target, "data", {"text": text}) as folder:
        _fill(folder, text)


def rename_twice(target: Path, text: str) -> None:
    """The control: what a careful person does without an exchange."""
    partial, aside = target.with_name("partial"), target.with_name("aside")
    partial.mkdir()
    _fill(partial, text)
    write_manifest(partial, "data", {"text": text})
    target.replace(aside)
    partial.replace(target)
    shutil.rmtree(aside)


def _fill(folder: Path, text: str) -> None:
    (folder / "sub").mkdir()
    for number in range(3):
        (folder / "sub" / f"{number}.txt").write_text(text)


def _killed(target: Path, way: str, line: int) -> bool:
    child = os.fork()
    if not child:
        sys.settrace(_Killer(line))
        (rename_twice if way == "rename_twice" else write)(target, "new")
        sys.settrace(None)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


class _Killer:
    """A tracer that ends the process at the n-th line of the watched files."""

    def __init__(self, line: int) -> None:
        self._left = line

    def __call__(self, frame: FrameType, event: str, argument: Any) -> "_Killer | None":
        if not any(part in frame.f_code.co_filename for part in WATCHED):
            return None
        if event == "line":
            if self._left == 0:
                os._exit(9)
            self._left -= 1
        return self


def _is_whole(target: Path) -> bool:
    try:
        artifact = open_artifact(target)
        texts = {artifact.file(name).read_text() for name in artifact.manifest["files"]}
    except Exception:
        return False
    return len(artifact.manifest["files"]) == 3 and texts == {artifact.entry("text")}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
