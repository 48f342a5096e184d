"""Without Java, Spark is refused in one line; on it, `tests/integration/test_prepare.py` runs."""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, cast

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


def test_ctrl_c_is_given_back_though_spark_does_not_start() -> None:
    from nextquery.logs.engines.spark import _handlers_kept

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError, match="no Java"), _handlers_kept():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise RuntimeError("no Java")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_python_did_not_set_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from nextquery.logs.engines.spark import _handlers_kept

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    with _handlers_kept():
        pass
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is before


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
