"""`prepare` on a standalone Spark cluster on loopback that loses a worker while it runs.

Spark on one machine is in `test_prepare.py`; models counted by Spark are in tests/unit/suggesters.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path

import polars as pl
import pytest

from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

DEADLINE = 600
DEFAULTS = Path(__file__).parent.parent / "spark" / "spark-defaults.conf"
FILES = 6


class SparkCluster:
    """A master and its workers, from the files of pyspark; every process leads its own group."""

    def __init__(self, folder: Path) -> None:
        specification = util.find_spec("pyspark")
        assert specification is not None
        assert specification.origin is not None
        self._home = Path(specification.origin).parent
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        settings = {"spark.sql.shuffle.partitions": 2, "spark.executor.memory": "512m"}
        lines = (f"{key} {value}\n" for key, value in settings.items())
        (folder / "spark-defaults.conf").write_text(DEFAULTS.read_text() + "".join(lines))
        self.environment = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "SPARK_CONF_DIR": str(folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        log = self._start("master", "master.Master", "--port", "0")
        self.master = _wait_for(log, r"(spark://127\.0\.0\.1:\d+)")

    def add_worker(self, name: str) -> subprocess.Popen[bytes]:
        """Start a worker with one core, and wait until the master lists it."""
        work = ("--work-dir", str(self._folder / name), "--cores", "1", "--memory", "512m")
        log = self._start(name, "worker.Worker", *work, self.master)
        _wait_for(log, "(Successfully registered with master)")
        return self._processes[-1]

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a worker and the executors that it has started."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all that still runs."""
        for process in reversed(self._processes):
            if process.poll() is None:
                self.kill(process)

    def _start(self, name: str, role: str, *options: str) -> Path:
        log = self._folder / f"{name}.log"
        script = self._home / "bin" / "spark-class"
        address = ("--host", "127.0.0.1", "--webui-port", "0")
        with log.open("wb") as stream:
            self._processes.append(
                subprocess.Popen(
                    [str(script), f"org.apache.spark.deploy.{role}", *address, *options],
                    env=self.environment,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        return log


def _wait_for(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if match := re.search(pattern, log.read_text(errors="replace")):
            return match[1]
        time.sleep(0.1)
    raise TimeoutError(f"{pattern} is not in {log.read_text(errors='replace')[-2000:]}")


@contextmanager
def _cluster(folder: Path) -> Iterator[SparkCluster]:
    folder.mkdir()
    cluster = SparkCluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()


def _write_parts(folder: Path) -> Path:
    """A log in a folder of several files."""
    write_log(folder / "all.tsv", 250, seed=3)
    header, *lines = (folder / "all.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    parts = folder / "logs"
    parts.mkdir()
    size = -(-len(lines) // FILES)
    for number in range(FILES):
        part = "".join(lines[number * size : (number + 1) * size])
        (parts / f"part-{number:02}.tsv").write_text(header + part, encoding="utf-8")
    return parts


def test_a_cluster_makes_the_tables_of_one_machine_though_it_loses_a_worker(tmp_path: Path) -> None:
    if not (util.find_spec("pyspark") and shutil.which("java")):
        pytest.skip("Spark needs the extra 'spark' and Java")
    logs, local, out = _write_parts(tmp_path), tmp_path / "local", tmp_path / "data"
    settings = PrepareSettings(engine="polars", min_users=2, spelling=False, journal=False)
    prepare([logs], local, settings)
    # Without spelling and journal: every table costs seconds here.
    options = ("--min-users", "2", "--no-spelling", "--no-journal", "--engine", "spark")
    command = [sys.executable, "-m", "nextquery", "prepare", logs.as_uri(), "--out", str(out)]
    with _cluster(tmp_path / "cluster") as cluster:
        doomed = cluster.add_worker("first")
        cluster.add_worker("second")
        with subprocess.Popen(
            [*command, *options, "--spark-master", cluster.master],
            env=cluster.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as job:
            try:
                # Workers have written a first table in the folder that is not yet published.
                while not any(tmp_path.rglob("_SUCCESS")):
                    assert job.poll() is None, job.communicate()[0]
                    time.sleep(0.1)
                cluster.kill(doomed)
                shown, _ = job.communicate()
                assert job.returncode == 0, shown
            finally:
                job.kill()
    tables = sorted(path.relative_to(local) for path in local.rglob("*.parquet"))
    tables = [path for path in tables if path.parts[0] in ("sessions", "counts")]
    assert len(tables) == 9
    for table in tables:
        assert pl.read_parquet(local / table).equals(pl.read_parquet(out / table)), table
    assert (out / "vocabulary.txt").read_bytes() == (local / "vocabulary.txt").read_bytes()
