"""Without Java, Spark is refused in one line; on it, `tests/integration/test_prepare.py` runs."""

import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from nextquery.errors import MissingDependencyError
from nextquery.logs.engines.open import open_engine

pytest.importorskip("pyspark")


def test_a_machine_without_java_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingDependencyError, match="needs Java 17 or newer: install a JRE"):
        open_engine("spark", tmp_path)


class _Builder:
    """Takes Ctrl-C as Spark does: where it is started from the main thread."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def getOrCreate(self) -> str:  # noqa: N802
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._error:
            raise self._error
        return "a session"


def test_spark_does_not_get_ctrl_c() -> None:
    from nextquery.logs.engines.spark import _started

    before = signal.getsignal(signal.SIGINT)
    try:
        assert cast(Any, _started)(_Builder()) == "a session"
        with pytest.raises(RuntimeError, match="no Java"):
            cast(Any, _started)(_Builder(RuntimeError("no Java")))
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_workers_run_this_python_and_the_environment_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    before = {key for key in os.environ if "PYTHON" in key}
    handler = signal.getsignal(signal.SIGINT)
    engine = cast(Any, open_engine("spark", tmp_path, "local[1]"))
    try:
        found = engine.session.sparkContext.parallelize([0], 1).map(lambda _: sys.executable)
        assert found.collect() == [sys.executable]
        assert {key for key in os.environ if "PYTHON" in key} == before
        assert signal.getsignal(signal.SIGINT) is handler  # Spark would take Ctrl-C for itself
    finally:
        engine.close()
