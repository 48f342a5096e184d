"""Damaged and hostile folders, each opened and asked in a process of its own.

    python -m tests.reliability.damaged_folders FOLDER TRIALS SEED [CONTROL]

Tries TRIALS folders with files altered without the manifest (`damaged`), then as many altered with
a manifest that fits (`hostile`). Then the control: nothing is checked, and the first of CONTROL
folders of each kind that is neither refused nor answered ends the trials. Prints how often each
outcome came: refused, same, other, error, crash, hang.
"""

import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.reliability.small_models import KINDS, ask

SECONDS = 180
SECONDS_UNCHECKED = 5
"""On a busy machine a child may have to wait; in the control some wait for ever."""
REFUSED, SAME, OTHER, ERROR = 10, 11, 12, 13
OUTCOMES = {REFUSED: "refused", SAME: "same", OTHER: "other", ERROR: "error"}
BROKEN = ("error", "crash", "hang")


def flip(file: Path, draw: random.Random) -> None:
    """One bit."""
    content = bytearray(file.read_bytes() or b"\0")
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def scatter(file: Path, draw: random.Random) -> None:
    """Some bytes here and there."""
    content = bytearray(file.read_bytes() or b"\0")
    for _ in range(draw.randint(2, 20)):
        content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
    file.write_bytes(content + b"\0")


def overwrite(file: Path, draw: random.Random) -> None:
    """A block of one value."""
    content = bytearray(file.read_bytes())
    start = draw.randrange(len(content) + 1)
    block = bytes([draw.choice([0, 1, 127, 255])]) * draw.choice([4, 8, 64, 4096])
    content[start : start + len(block)] = block
    file.write_bytes(content + b"\1")


def cut(file: Path, draw: random.Random) -> None:
    """A shorter file."""
    os.truncate(file, draw.randrange(max(1, file.stat().st_size)))


def append(file: Path, draw: random.Random) -> None:
    """A longer file."""
    file.write_bytes(file.read_bytes() + draw.randbytes(draw.randint(1, 100)))


def replace(file: Path, draw: random.Random) -> None:
    """The content of another file of the folder."""
    files = sorted(path for path in file.parent.iterdir() if path.is_file() and path != file)
    file.write_bytes(draw.choice(files).read_bytes() + b" " if files else b"")


def delete(file: Path, draw: random.Random) -> None:
    """No file."""
    file.unlink()


def link(file: Path, draw: random.Random) -> None:
    """A link to the same content elsewhere."""
    elsewhere = Path(shutil.copy(file, f"{tempfile.mkdtemp(dir=file.parents[-4])}/copy"))
    file.unlink()
    file.symlink_to(elsewhere)


def pipe(file: Path, draw: random.Random) -> None:
    """A pipe that nobody writes to."""
    file.unlink()
    os.mkfifo(file)


Damage = Callable[[Path, random.Random], None]
DAMAGED: tuple[Damage, ...] = (flip, scatter, overwrite, cut, append, replace, delete, link, pipe)
HOSTILE: tuple[Damage, ...] = (flip, flip, scatter, overwrite, cut, append, replace)


def main(folder: Path, trials: int, seed: int, control: int) -> dict[str, Counter[str]]:
    """Try damaged and hostile copies of the models below `folder`, then without checks."""
    draw = random.Random(seed)
    models = sorted(path for path in folder.iterdir() if _kind(path) not in ("", "study"))
    _import_everything()
    expected = {model: _answers(model) for model in models}
    outcomes = {name: Counter[str]() for name in ("damaged", "hostile")}
    for name, counts in outcomes.items():
        for _ in range(trials):
            model = draw.choice(models)
            outcome, damage = _try(model, name == "hostile", draw, expected[model], SECONDS)
            counts[outcome] += 1
            if outcome in (*BROKEN, "other"):
                print(f"{model.name}/{damage}: {outcome}", file=sys.stderr)
    _check_nothing()
    for name in ("damaged", "hostile"):
        counts = outcomes[f"{name}-unchecked"] = Counter()
        while sum(counts.values()) < control and not counts.keys() & set(BROKEN):
            model = draw.choice(models)
            limit = SECONDS_UNCHECKED
            outcome, _ = _try(model, name == "hostile", draw, expected[model], limit)
            counts[outcome] += 1
    return outcomes


def _try(
    model: Path, hostile: bool, draw: random.Random, expected: str, limit: int
) -> tuple[str, str]:
    """The outcome of one altered copy of a model, and what was altered."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(model, Path(scratch) / "model"))
        damage = _damage(copy, draw, HOSTILE if hostile else DAMAGED)
        if hostile:
            _fit_manifest(copy)
        return _outcome(copy, expected, limit), damage


def _kind(folder: Path) -> str:
    file = folder / "manifest.json"
    return str(json.loads(file.read_text(encoding="utf-8"))["kind"]) if file.is_file() else ""


def _damage(folder: Path, draw: random.Random, kinds: tuple[Damage, ...]) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if kinds is HOSTILE:
        files = [path for path in files if path != folder / "manifest.json"]
    file, damage = draw.choice(files), draw.choice(kinds)
    damage(file, draw)
    return f"{file.relative_to(folder)} ({damage.__name__})"


def _fit_manifest(folder: Path) -> None:
    from nextquery.artifacts import write_manifest

    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    write_manifest(folder, manifest["kind"], manifest)


def _check_nothing() -> None:
    from nextquery.artifacts import folder, manifest

    for module, name, instead in (
        (manifest, "check_file", lambda *_, **__: None),
        (manifest, "open_plain", lambda root, name, shown: (root / name).open("rb")),
        (manifest, "checksum", lambda content: content.get("checksum", "")),
        (folder.Artifact, "check_once", lambda self, subject, check: None),
    ):
        setattr(module, name, instead)


def _import_everything() -> None:
    """Import what children need; nothing may be computed here, or forks inherit dead threads."""
    for module in (
        "nextquery.logs.inspect",
        "nextquery.suggesters.neural",
        *(f"nextquery.suggesters.{kind}" for kind in KINDS),
    ):
        importlib.import_module(module)


def _answers(folder: Path) -> str:
    """What a sound folder says, asked in a child as the others are."""
    with tempfile.TemporaryDirectory() as scratch:
        child = os.fork()
        if not child:
            Path(scratch, "answers").write_text(repr(ask(folder)), encoding="utf-8")
            os._exit(0)
        os.waitpid(child, 0)
        return Path(scratch, "answers").read_text(encoding="utf-8")


def _outcome(folder: Path, expected: str, limit: int) -> str:
    child = os.fork()
    if not child:
        signal.alarm(limit)
        os._exit(_asked(folder, expected))
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "hang" if os.WTERMSIG(status) == signal.SIGALRM else "crash"
    return OUTCOMES.get(os.WEXITSTATUS(status), "crash")


def _asked(folder: Path, expected: str) -> int:
    import warnings

    from nextquery.errors import NextqueryError

    warnings.simplefilter("ignore")
    os.environ["XDG_CACHE_HOME"] = str(folder.parent / "cache")
    try:
        return SAME if repr(ask(folder)) == expected else OTHER
    except NextqueryError:
        return REFUSED
    except BaseException as error:
        print(f"    {error!r:.200}", file=sys.stderr)
        return ERROR


if __name__ == "__main__":
    words = [*sys.argv[1:], "0"]
    print(json.dumps(main(Path(words[0]), *map(int, words[1:4]))))
