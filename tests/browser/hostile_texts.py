"""The hostile texts of the reliability benchmark, for the tests of the pages."""

import runpy
from pathlib import Path

_FILE = Path(__file__).parents[2] / "bench" / "promises" / "hostile_texts.py"


def hostile_texts() -> list[str]:
    return list(runpy.run_path(str(_FILE))["hostile_texts"]())
