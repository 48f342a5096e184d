"""Memory settings: the entry points make them, the library never does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nextquery.guard.guard import Guard
from nextquery.inference.process_memory import give_back, keep_freed_memory
from nextquery.suggesters.neural import HREDSuggester

from .conftest import ModelMaker

WATCH = """
import json, os, signal, sys
touched = []
def watch(event, arguments):
    if event == "ctypes.dlsym" and arguments[1] in ("mallopt", "malloc_trim"):
        touched.append(arguments[1])
    if event in ("os.putenv", "os.unsetenv"):
        touched.append(arguments[0].decode())
before = dict(os.environ), [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
"""
REPORT = """
after = dict(os.environ), [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
print(json.dumps({"touched": touched, "same": before == after, "threads": threads()}))
"""
LIBRARY = """
import torch
threads = torch.get_num_threads
first = threads()
sys.addaudithook(watch)  # from here on: importing torch is not the library's doing
import nextquery
from pathlib import Path
from nextquery.guard.guard import Guard
from nextquery.suggesters.neural import HREDSuggester
model = HREDSuggester.load(Path(sys.argv[1]), Guard())
model.suggest(["w1 w2"], 3); model.complete(["w1"], "w2 w", 3); model.score(["w1"], ["w2"])
assert threads() == first
"""


@pytest.fixture
def folder(make_model: ModelMaker, tmp_path: Path) -> Path:
    make_model().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def run(program: str, *arguments: str) -> Any:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_library_leaves_the_process_as_it_is(folder: Path) -> None:
    found = run(WATCH + LIBRARY + REPORT, str(folder))
    assert found["touched"] == []
    assert found["same"]


@pytest.mark.slow
def test_the_watch_would_have_seen_it(folder: Path) -> None:
    settings = (
        "from nextquery.inference import process_memory as settings\n"
        "settings.keep_freed_memory(); settings.give_back()\n"
    )
    found = run(WATCH + LIBRARY + settings + REPORT, str(folder))
    assert {"mallopt", "malloc_trim"} <= set(found["touched"])


def test_giving_back_leaves_the_program_whole(folder: Path) -> None:
    suggester = HREDSuggester.load(folder, Guard())
    before = suggester.suggest(["w1 w2"], 5)
    give_back()
    assert suggester.suggest(["w1 w2"], 5) == before


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator only")
def test_freed_memory_can_be_kept() -> None:
    assert keep_freed_memory()


def test_serving_imports_nothing_of_the_log() -> None:
    """Polars and PyArrow would take 55 MB that no suggestion needs."""
    program = (
        "import json, sys; import nextquery.suggesters.neural, nextquery.suggesters.loading; "
        "print(json.dumps([m for m in ('polars', 'pyarrow', 'duckdb', 'scipy', 'matplotlib', "
        "'sklearn', 'sympy', 'torch._dynamo') if m in sys.modules]))"
    )
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert json.loads(printed.stdout) == []
