"""Prepared data folders made from a few sessions, and services that run on models of them."""

import os

# Read when torch and Polars are loaded. Their threads share the cores with other test processes: on
# tables and batches this small they take more CPU time than they save of anybody's.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import contextlib
import fcntl
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from hypothesis import settings

from nextquery.artifacts import publish
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.fit import fit_model

os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark"))

# A busy machine is slow now and then: properties are about results, not about time.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


HERE = Path(__file__).parent
WHOLE_COMMANDS = ("browser", "contract", "install", "integration", "learning", "reliability")
"""Folders whose tests run browsers, commands or trainings: none is in the fast inner loop."""
PROCESSES_AND_WAITING = (
    *("cli/test_log_commands.py", "cli/test_main.py", "cli/test_signals.py"),
    *("evaluation/test_report.py", "evaluation/test_systems.py", "feedback/test_comparison.py"),
    *("logs/test_sources.py", "service/test_http_protocol.py", "service/test_model_process.py"),
)
"""Unit tests that start processes or wait for connections: most of the time of the others."""


LONGEST = (
    *("learning/test_experiments.py", "integration/test_notebooks.py", "integration/test_spark.py"),
    *("integration/test_documented_commands.py", "integration/test_prepare.py"),
    *("integration/test_nightly_job.py", "learning", "reliability", "integration", "install"),
)
"""Files and folders that come first, so that no process ends long after the others."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what the fast inner loop leaves out."""
    fast = config.option.markexpr == "not slow"
    return True if fast and collection_path in {HERE / name for name in WHOLE_COMMANDS} else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is in these folders and files, and begin with the longest."""
    slow = {HERE / name for name in WHOLE_COMMANDS}
    slow |= {HERE / "unit" / name for name in PROCESSES_AND_WAITING}
    for item in items:
        if slow & {item.path, *item.path.parents}:
            item.add_marker(pytest.mark.slow)
    order = {HERE / name: number for number, name in enumerate(LONGEST)}

    def rank(item: pytest.Item) -> int:
        ranks = [order[path] for path in (item.path, *item.path.parents) if path in order]
        return min(ranks, default=len(order))

    items.sort(key=rank)


@dataclass(frozen=True)
class TinyLog:
    """Background sessions as (user, queries); clicks as (user, query, url); K of the rule."""

    sessions: Sequence[tuple[str, Sequence[str]]]
    clicks: Sequence[tuple[str, str, str]] = ()
    min_users: int = 1
    days: Sequence[int] = field(default_factory=tuple)
    """The day of each session; all on day 0 when empty."""
    parts: int = 1
    """How many files the sessions are spread over."""
    reverse: bool = False
    """Whether rows and tables are written in the opposite order."""
    spelling: bool = False


DataMaker = Callable[[TinyLog], PreparedData]


@pytest.fixture(scope="session")
def tiny_log() -> type[TinyLog]:
    return TinyLog


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> DataMaker:
    def make(log: TinyLog) -> PreparedData:
        target = tmp_path_factory.mktemp("data")
        searches = sum(len(queries) for _, queries in log.sessions)
        counts = {
            "sessions": {"background": len(log.sessions)},
            "searches": {"background": searches},
        }
        settings = {"min_users": log.min_users, "spelling": log.spelling}
        entries = {"settings": settings, "counts": counts}
        with publish(target, "data", entries) as folder:
            _write_sessions(folder, log)
            _write_counts(folder, log)
        return PreparedData(target)

    return make


def _rows(log: TinyLog) -> pl.DataFrame:
    clicked = [(user, query) for user, query, _ in log.clicks]
    days = log.days or [0] * len(log.sessions)
    rows = [
        {
            "session": number,
            "position": position,
            "user": user,
            "time": datetime(2024, 1, 1) + timedelta(days=day, minutes=position),
            "query": query,
            "clicks": clicked.count((user, query)),
        }
        for number, ((user, queries), day) in enumerate(zip(log.sessions, days, strict=True))
        for position, query in enumerate(queries)
    ]
    whole: dict[str, Any] = {"session": pl.Int64, "position": pl.Int32, "clicks": pl.Int32}
    return pl.DataFrame(rows, schema_overrides=whole)


def _write_sessions(folder: Path, log: TinyLog) -> None:
    target = folder / "sessions" / "background"
    target.mkdir(parents=True)
    rows = _rows(log)
    for part in range(log.parts):
        rows_of_part = rows.filter(pl.col("session") % log.parts == part)
        rows_of_part = rows_of_part.reverse() if log.reverse else rows_of_part
        rows_of_part.write_parquet(target / f"part-{part:05}.parquet")


def _write_counts(folder: Path, log: TinyLog) -> None:
    (folder / "counts").mkdir()
    rows = _rows(log).select("session", "position", "user", "query")
    common = pl.col("users") >= log.min_users
    queries = _counted(rows, "query").filter(common)
    words = rows.with_columns(word=pl.col("query").str.split(" ")).explode("word")
    following = rows.with_columns(next=pl.col("query").shift(-1).over("session"))
    pairs = _counted(following.drop_nulls().rename({"query": "anchor"}), "anchor", "next")
    clicks = pl.DataFrame(
        list(log.clicks), {"user": pl.String, "query": pl.String, "url": pl.String}, orient="row"
    )
    second = pl.col("word").shift(-1).over("session", "position")
    word_pairs = words.with_columns(second=second).drop_nulls().rename({"word": "first"})
    tables = {
        "queries": queries,
        "words": _counted(words, "word").filter(common),
        "word_pairs": _counted(word_pairs, "first", "second"),
        "followers": pairs.join(queries, left_on="anchor", right_on="query", how="semi").join(
            queries, left_on="next", right_on="query", how="semi"
        ),
        "clicks": _counted(clicks, "query", "url").join(queries, on="query", how="semi"),
    }
    for name, table in tables.items():
        ordered = table.sort(pl.all())
        written = ordered.reverse() if log.reverse else ordered
        written.write_parquet(folder / "counts" / f"{name}.parquet")


def _counted(rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    return rows.group_by(keys).agg(pl.len().alias("count"), users=pl.col("user").n_unique())


def run_cli(*words: object, code: int = 0) -> Any:
    """The result of a command in this process, which must end with the exit code."""
    from typer.testing import CliRunner

    from nextquery.cli.main import app

    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def run_command(*words: object) -> str:
    """What a command that must succeed prints."""
    return str(run_cli(*words).stdout)


# A service as users run it: a process of its own, spoken to over HTTP.


PATIENCE = 900.0
"""Seconds after which something is taken for hung: a busy machine can be a hundred times slower."""


@dataclass
class RunningService:
    """A `nextquery serve` process and what it logged."""

    process: subprocess.Popen[str]
    url: str = ""
    log: list[str] = field(default_factory=list)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Ask on a new connection, which any worker may take."""
        # Without `verify=False` every request reads all certificates, 18 ms of CPU time.
        return httpx.request(method, self.url + path, timeout=PATIENCE, verify=False, **options)

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return self.request("POST", path, json=body, headers=headers)

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def wait_until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Look again until it is so; a service that ended or takes too long fails the test."""
        end = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, "".join(self.log[-20:])
            assert time.monotonic() < end, f"waited {seconds} s: " + "".join(self.log[-20:])
            time.sleep(0.02)

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> int:
        """End it as an operator would and give its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


ServiceStarter = Callable[..., RunningService]


@contextlib.contextmanager
def service_starter() -> Iterator[ServiceStarter]:
    """A function that starts services; they end with the context."""
    started: list[RunningService] = []

    def start(*arguments: str | Path, ready: bool = True, **environment: str) -> RunningService:
        command = [sys.executable, "-m", "nextquery", "serve", *map(str, arguments)]
        process = subprocess.Popen(
            [*command, "--port", "0", "--drain-seconds", "0"],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        service = RunningService(process)
        started.append(service)
        assert process.stderr is not None
        threading.Thread(target=service.log.extend, args=(process.stderr,), daemon=True).start()
        service.wait_until(lambda: any('"serving"' in line for line in service.log))
        serving = next(line for line in service.log if '"serving"' in line)
        service.url = json.loads(serving)["url"].rstrip("/")
        if ready:
            service.wait_until(service.is_ready)
        return service

    try:
        yield start
    finally:
        for service in started:
            if service.process.poll() is None:
                service.process.terminate()
        for service in started:
            try:
                service.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                service.process.kill()
                service.process.wait()
            assert service.process.stderr is not None
            service.process.stderr.close()


@pytest.fixture(scope="module")
def start_service() -> Iterator[ServiceStarter]:
    with service_starter() as start:
        yield start


SERVED_SESSIONS = [
    *[(f"a{n}", ["red shoes", "red boots", "leather boots"]) for n in range(5)],
    *[(f"b{n}", ["red shoes", "running shoes", "trail running shoes"]) for n in range(4)],
    *[(f"c{n}", ["paris", "paris hotels", "paris hotels cheap"]) for n in range(6)],
    *[(f"d{n}", ["rome", "rome flights"]) for n in range(3)],
]


@pytest.fixture(scope="session")
def served_models(prepared: DataMaker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model folders over one small log: two count models and two untrained networks."""
    from nextquery.suggesters.adjacency import Adjacency
    from nextquery.suggesters.popularity import Popularity

    data = prepared(TinyLog(SERVED_SESSIONS))
    folder = tmp_path_factory.mktemp("models")
    fit_model(Adjacency, data).save(folder / "adjacency")
    fit_model(Popularity, data).save(folder / "popularity")
    make_untrained_hred(data, folder / "hred")
    make_untrained_transformer(data, folder / "transformer")
    return {path.name: path for path in folder.iterdir()}


FolderMaker = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> FolderMaker:
    """Folders that all processes of a test run share, made by the first that asks for one."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def make(name: str, write: Callable[[Path], object]) -> Path:
        folder = root / f"shared-{name}"
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                folder.mkdir()
                write(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def language_models(made_once: FolderMaker) -> Callable[[str], Path]:
    """Folders of trained models by language (`tests/languages.py`), made when first asked for."""
    from tests.languages import make_models

    return lambda name: made_once(name, partial(make_models, name))


def make_untrained_hred(
    data: PreparedData, target: Path, seed: int = 0, *, usefulness: bool = False
) -> None:
    """A folder as training leaves it, with random weights."""
    from nextquery.model.settings import ModelConfig

    config = ModelConfig(embedding_size=8, query_size=12, session_size=16, usefulness=usefulness)
    _publish_untrained(config, data, target, seed)


def make_untrained_transformer(data: PreparedData, target: Path, seed: int = 0) -> None:
    """The same of the session Transformer, with copying."""
    from nextquery.model.settings import TransformerConfig

    config = TransformerConfig(embedding_size=8, model_size=16, heads=2, copy=True)
    _publish_untrained(config, data, target, seed)


def _publish_untrained(config: Any, data: PreparedData, target: Path, seed: int) -> None:
    import torch

    from nextquery.guard.tables import write_tables
    from nextquery.model.likelihood import new_model
    from nextquery.text.vocabulary import Vocabulary

    torch.manual_seed(seed)
    words = sorted(data.counts("words").select("word").collect()["word"])
    sized = config.model_copy(update={"vocabulary_size": len(words)})
    model = new_model(sized, Vocabulary(words))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # sharp enough that contexts and words differ clearly
    with publish(target, model.kind, model.manifest_entries()) as folder:
        model.write_files(folder)
        write_tables(data, folder)
        switch_off_gate(folder)


def switch_off_gate(folder: Path) -> None:
    """Remove the text-quality gate, which hides all that an untrained model writes."""
    file = folder / "guard" / "settings.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    del settings["least_fluency"], settings["corrections"]
    file.write_text(json.dumps(settings), encoding="utf-8")


# A real Redis.


def _free_port() -> int:
    """A free port that the kernel gives to no client meanwhile: below its ephemeral range."""
    for port in random.sample(range(20000, 32768), 50):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


class RedisServer:
    """A real Redis that can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bind()
        # A busy test machine may take longer than the 250 ms that a service gives its Redis.
        patience = "socket_timeout=20&socket_connect_timeout=20"
        self.url = f"redis://127.0.0.1:{self.port}/0?{patience}"

    def _bind(self) -> None:
        """Start on a free port, or on another if somebody took it meanwhile."""
        for _ in range(20):
            self.port = _free_port()
            self.start()
            if self._process.poll() is None:
                return
        raise AssertionError("redis-server finds no port")

    def start(self) -> None:
        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), *options, "--dir", str(self._folder)],
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + 900
        while self._process.poll() is None and not self._answers():
            assert time.monotonic() < end, "redis-server does not start"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    server = RedisServer(tmp_path)
    yield server
    server.kill()
