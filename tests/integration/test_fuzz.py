"""A few seconds of coverage-guided fuzzing; `nextquery bench fuzz` does it for minutes."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("atheris")
FUZZ = Path(__file__).parents[2] / "bench" / "fuzz.py"


@pytest.mark.slow
def test_nothing_that_is_read_without_trust_breaks_its_reader() -> None:
    found = runpy.run_path(str(FUZZ))["main"](quick=True)["targets"]
    assert set(found) == {"manifest", "trie", "log", "blocklist"}
    for target in found.values():
        assert not target["found"], target["what"]
        assert target["inputs"] > 0
