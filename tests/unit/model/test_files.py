"""The names of a model folder's files, known without torch."""

import subprocess
import sys
from pathlib import Path

from nextquery.model.settings import KIND, VOCABULARY, WEIGHTS


def test_a_folder_has_the_files_by_these_names(served_models: dict[str, Path]) -> None:
    assert (served_models[KIND] / WEIGHTS).is_file()
    assert (served_models[KIND] / VOCABULARY).is_file()


def test_knowing_them_imports_no_torch() -> None:
    code = "import sys, nextquery.model.settings; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
