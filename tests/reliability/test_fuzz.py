"""Three seconds of coverage-guided fuzzing per target; `NEXTQUERY_FUZZ_SECONDS` takes longer."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .fuzz_targets import TARGETS

pytest.importorskip("atheris")
SECONDS = os.environ.get("NEXTQUERY_FUZZ_SECONDS", "3")


@pytest.mark.timeout(60 + int(SECONDS))
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_that_is_read_without_trust_breaks_its_reader(name: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("fuzz_targets.py")
    command = [sys.executable, str(script), name, SECONDS, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    tried = re.findall(r"^stat::number_of_executed_units: *(\d+)", ended.stderr, re.M)
    assert int(tried[-1]) > 0
