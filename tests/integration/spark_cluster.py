"""A standalone Spark cluster on loopback: a master and workers, from the files of pyspark."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path

_DEADLINE = 300
_DEFAULTS = Path(__file__).parent.parent / "spark" / "spark-defaults.conf"


class SparkCluster:
    """A master and its workers; every process leads a group of its own."""

    def __init__(self, folder: Path) -> None:
        specification = util.find_spec("pyspark")
        assert specification is not None
        assert specification.origin is not None
        self._home = Path(specification.origin).parent
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        settings = {"spark.sql.shuffle.partitions": 2, "spark.executor.memory": "512m"}
        lines = (f"{key} {value}\n" for key, value in settings.items())
        (folder / "spark-defaults.conf").write_text(_DEFAULTS.read_text() + "".join(lines))
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
        """Start a worker with one core, and wait until the master knows it."""
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


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """A master without workers, which ends with all its workers."""
    folder.mkdir()
    cluster = SparkCluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()


def _wait_for(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(f"{pattern} is not in {log.read_text(errors='replace')[-2000:]}")
