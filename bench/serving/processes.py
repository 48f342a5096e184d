"""The processes of the benchmark: services, Redis, load. Each is ended by whoever started it."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.serving.load import ANSWERED, FAILED

HERE = Path(__file__).parent


def free_port() -> int:
    """A free port that the kernel gives to no client meanwhile: below its ephemeral range."""
    for port in random.sample(range(20000, 32768), 50):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port")


def _read(path: str | Path) -> str:
    """A file of `/proc`; nothing if its process or thread has just ended."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


class Server:
    """A process that answers HTTP on loopback; at port 0 its log says where."""

    def __init__(self, command: list[str], port: int, environment: dict[str, str]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = Path(tempfile.mkstemp(suffix=".log")[1])
        with self.log.open("w") as stream:
            self.process = subprocess.Popen(
                command, stdout=stream, stderr=stream, env={**os.environ, **environment}
            )

    def get(self, path: str) -> str:
        """The body of an answer."""
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return str(answer.read().decode())

    def send(self, method: str, path: str, body: Any, **headers: str) -> int:
        """The status of an answer."""
        data = json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return int(error.code)

    def wait_ready(self) -> None:
        """Until the models are loaded, of every worker."""
        end = time.monotonic() + 600
        while time.monotonic() < end:
            if self.url.endswith(":0"):
                match = re.search(r'"url": ?"([^"]+)"', self.log.read_text())
                self.url = match[1].rstrip("/") if match else self.url
            with contextlib.suppress(OSError):
                self.get("/readyz")
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"the server does not start: {self.log.read_text()[-2000:]}")

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.get("/metrics").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def memory_mb(self) -> float:
        """Resident memory of the process, its workers and their models."""
        sizes = [
            re.search(r"VmRSS:\s+(\d+)", _read(f"/proc/{pid}/status")) for pid in self.processes()
        ]
        return sum(int(size[1]) for size in sizes if size) / 1024

    def cpu_seconds(self) -> float:
        """CPU time of the process, its workers and their models so far."""
        ticks = 0
        for pid in self.processes():
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def processes(self) -> list[int]:
        """The process and all that it started, directly or not."""
        pids = [self.process.pid]
        for pid in pids:
            for task in Path(f"/proc/{pid}/task").glob("*"):  # any thread may have started it
                pids.extend(map(int, _read(task / "children").split()))
        return pids

    def answered_ms(self, start: int = 0) -> list[float]:
        """What its log says that answers took from their arrival on, from a place of the log on."""
        lines = self.log.read_bytes()[start:].splitlines()
        entries = [
            json.loads(line) for line in lines if b'"request"' in line and line.endswith(b"}")
        ]
        return [
            entry["ms"]
            for entry in entries
            if entry.get("status") == 200 and "/v1/" in entry["route"]
        ]

    def stop(self) -> int:
        """End it gracefully and give its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(180)


@contextlib.contextmanager
def service(model: Path, *options: str, workers: int = 1, **environment: str) -> Iterator[Server]:
    """A ready `nextquery serve`."""
    arguments = ["serve", str(model), "--port", "0"]
    if workers > 1 and "--sessions" not in options:
        arguments += ["--sessions", "none"]
    command = [sys.executable, "-m", "nextquery", *arguments, "--workers", str(workers), *options]
    server = Server(command, 0, environment)
    try:
        server.wait_ready()
        while server.log.read_text().count('"models loaded"') < workers:
            time.sleep(0.05)
        yield server
    finally:
        server.stop()
        server.log.unlink()


@contextlib.contextmanager
def plain(model: Path) -> Iterator[Server]:
    """The plain handler."""
    port = free_port()
    server = Server([sys.executable, str(HERE / "plain.py"), str(model), str(port)], port, {})
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()
        server.log.unlink()


class Redis:
    """A Redis server that can be killed and started again."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Start and wait until it answers."""
        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command = ["redis-server", "--port", str(self.port), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise RuntimeError("redis-server does not start")

    def kill(self) -> None:
        """As the kernel would."""
        self.process.kill()
        self.process.wait()


class Load:
    """A running load process."""

    def __init__(self, server: Server, words: list[str], **plan: Any) -> None:
        self._plan = Path(tempfile.mkstemp(suffix=".json")[1])
        self._plan.write_text(json.dumps({"url": server.url, "words": words, **plan}))
        command = [sys.executable, str(HERE / "load.py"), str(self._plan)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._said: set[str] = set()

    @property
    def running(self) -> bool:
        """Whether it still sends."""
        return self._process.poll() is None

    def wait_for_answers(self) -> None:
        """Until a request was answered: what is done then is done under load."""
        self._wait_for(ANSWERED)

    def wait_for_failures(self) -> None:
        """Until a request had no answer."""
        self._wait_for(FAILED)

    def _wait_for(self, line: str) -> None:
        assert self._process.stdout is not None
        while line not in self._said and self._process.poll() is None:
            self._said.add(self._process.stdout.readline().strip())

    def stop(self) -> dict[str, Any]:
        """End it before its time; what it saw."""
        self._process.send_signal(signal.SIGTERM)
        return self.result()

    def result(self) -> dict[str, Any]:
        """What it saw."""
        printed, _ = self._process.communicate()
        self._plan.unlink()
        figures: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return figures


def load(server: Server, words: list[str], **plan: Any) -> dict[str, Any]:
    """Run a load to its end."""
    return Load(server, words, **plan).result()
