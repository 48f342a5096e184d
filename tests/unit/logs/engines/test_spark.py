"""Without Java, Spark is refused in one line; on it, `tests/integration/test_prepare.py` runs."""

from pathlib import Path

import pytest

from nextquery.errors import MissingDependencyError
from nextquery.logs.engines.opening import open_engine

pytest.importorskip("pyspark")


def test_a_machine_without_java_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingDependencyError, match="needs Java 17 or newer: install a JRE"):
        open_engine("spark", tmp_path)
