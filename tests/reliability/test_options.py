"""Whatever an option is given: one line and an exit code."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

WITHOUT_RIGHTS = "-dac_override,-dac_read_search"


def as_ordinary_user() -> tuple[str, ...]:
    """Root may read and write everything; without that right, files can be out of its reach."""
    if os.geteuid() or shutil.which("setpriv") is None:
        return ()
    return ("setpriv", f"--bounding-set={WITHOUT_RIGHTS}", f"--inh-caps={WITHOUT_RIGHTS}")


@pytest.mark.timeout(900)
def test_a_hostile_value_of_any_option_is_refused_in_one_line_or_does_no_harm(
    run_script: Any, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample; `python -m tests.reliability.hostile_options FOLDER 1` tries all."""
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    result = run_script("hostile_options", files, 0.004, before=as_ordinary_user())
    assert result["tried"] > 10
    assert result["problems"] == []
