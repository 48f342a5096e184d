"""Promises of the service: reloads, stops, killed and stopped processes, floods, keys.

Every test runs a real `nextquery serve` on loopback with a small HRED that copies, or a count
model; each control is the same test on a service or a way of working that lacks the promise.
"""

import contextlib
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from promises.floods import floods_are_refused, floods_count_little
from promises.hostile_requests import attacks, problem
from promises.overloads import an_overload_is_refused_not_queued
from promises.rows import Row
from promises.small_models import served_models
from serving import processes
from serving.processes import Load, Server

AREA = "service"
KEY = "a-key-for-the-benchmark-only"
KEYS = f"bench:{hashlib.sha256(KEY.encode()).hexdigest()}"
ADMIN = {"X-Admin-Key": KEY}
WORST_SECONDS = 3.0
"""Processor time that any single request may take, wherever its texts come from."""


def _hred() -> Path:
    return served_models().hred["tiny"]


def service(model: Path, *options: str, **environment: str) -> AbstractContextManager[Server]:
    """A service that stops at once when it is told to, unless `options` say otherwise."""
    return processes.service(model, "--drain-seconds", "0", *options, workers=1, **environment)


def reloads_refuse_nobody(quick: bool) -> Row:
    """Requests while the model is loaded again; the control stops and starts the service."""
    count = 2 if quick else 20
    patient = ("--budget-ms", "60000", "--queue-size", "512")
    with service(_hred(), *patient, NEXTQUERY_ADMIN_KEYS=KEYS) as server:
        under = Load(server, served_models().words, rate=10)
        under.wait_for_answers()
        for _ in range(count):
            server.send("POST", "/admin/reload", None, **ADMIN)
        seen = under.stop()["statuses"]
    with service(served_models().adjacency) as server:
        under = Load(server, served_models().words, rate=20)
        under.wait_for_answers()
        server.stop()
        under.wait_for_failures()
        lost = under.stop()["statuses"]
    return Row(
        AREA,
        f"no request is refused during {count} reloads",
        sum(seen.values()),
        seen.get("200", 0),
        "a restart instead of a reload",
        sum(lost.values()) - lost.get("200", 0),
    )


def stops_lose_nothing(quick: bool) -> Row:
    """Accepted requests are answered when the service is told to stop; the control is kill -9."""
    count = 1 if quick else 20
    answered, lost, killed = 0, 0, 0
    for number in range(count):
        seen = _stopped(signal.SIGTERM, number)
        answered += seen.get("200", 0)
        lost += _lost(seen)
    killed = _lost(_stopped(signal.SIGKILL, 0))
    return Row(
        AREA,
        f"{count} stops under load lose no accepted request",
        answered + lost,
        answered,
        "kill -9",
        killed,
    )


def _stopped(number: int, seed: int) -> dict[str, int]:
    patient = ("--budget-ms", "60000")
    with _killable(_hred(), *patient, "--drain-seconds", "0.5") as server:
        under = Load(server, served_models().words, clients=8, seed=seed)
        under.wait_for_answers()
        server.process.send_signal(number)
        server.process.wait(120)
        statuses: dict[str, int] = under.result()["statuses"]
        return statuses


def _lost(statuses: dict[str, int]) -> int:
    return sum(count for status, count in statuses.items() if status.startswith("lost"))


@contextlib.contextmanager
def _killable(model: Path, *options: str) -> Iterator[Server]:
    """A service whose model process is ended too, however the service ended."""
    with service(model, *options) as server:
        children = [pid for pid in server.processes() if pid != server.process.pid]
        try:
            yield server
        finally:
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def a_killed_model_comes_back(quick: bool) -> Row:
    """The model's process is killed; the control kills the service itself."""
    count = 1 if quick else 10
    held = 0
    with service(_hred()) as server:
        for number in range(count):
            for pid in _model_processes(server):
                os.kill(pid, signal.SIGKILL)
            held += _answers_within(server, f"after {number}", 120)
    with service(served_models().adjacency) as server:
        server.process.kill()
        server.process.wait()
        gone = not _answers_within(server, "gone", 2)
    return Row(
        AREA, "a killed model process is started again", count, held, "the service killed", gone
    )


def _model_processes(server: Server) -> list[int]:
    pids = [pid for pid in server.processes() if pid != server.process.pid]
    return [pid for pid in pids if b"model_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def _answers_within(server: Server, query: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if server.send("POST", "/v1/suggest", {"query": query}) == 200:
                return True
        time.sleep(0.1)
    return False


def a_stopped_model_is_noticed(quick: bool) -> Row:
    """A model process that hangs makes the service not ready; the control is a healthy one."""
    with service(_hred()) as server:
        healthy = _status(server, "/readyz") == 200
        for pid in _model_processes(server):
            os.kill(pid, signal.SIGSTOP)
        asking = threading.Thread(
            target=server.send, args=("POST", "/v1/suggest", {"query": "hang"}), daemon=True
        )
        asking.start()
        held, end = False, time.monotonic() + 120
        while time.monotonic() < end and not held:
            held = _status(server, "/readyz") != 200 or _answers_within(server, "back", 0.5)
            time.sleep(0.2)
        for pid in _model_processes(server):
            os.kill(pid, signal.SIGCONT)
    return Row(
        AREA, "a model process that hangs is noticed", 1, held, "a healthy one is ready", healthy
    )


def _status(server: Server, path: str) -> int:
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(server.url + path, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def worst_requests_are_bounded(quick: bool) -> Row:
    """The costliest bodies that the schema allows; the control sends them to the plain network."""
    letters = "abcdefghijklmnopqrstuvwxyz0123"
    worst: list[dict[str, Any]] = [
        {"context": [" ".join(letters)] * 60, "query": "paris"},
        {"context": [f"{n} {'word ' * 100}"[:512] for n in range(100)], "query": "paris"},
        {"context": [" ".join(f"{n}x{m}" for m in range(100))[:512] for n in range(100)], "n": 50},
    ]
    held = 0
    with service(_hred(), "--budget-ms", "60000") as server:
        server.send("POST", "/v1/suggest", {"query": "warm"})
        for body in worst:
            start = server.cpu_seconds()
            status = server.send("POST", "/v1/suggest", body)
            held += status in (200, 422, 429, 503) and server.cpu_seconds() - start < WORST_SECONDS
    return Row(
        AREA,
        f"no request takes over {WORST_SECONDS:.0f} s of processor time",
        len(worst),
        held,
        "all words of such a context kept",
        _kept_words(worst[2]["context"]),
        "the bound that training used cuts the context",
    )


def _kept_words(context: list[str]) -> bool:
    """Whether the context has more words than the model reads: without the cut it would be slow."""
    return len({word for query in context for word in query.split()}) > 20 * 30


def strangers_stay_out(quick: bool) -> Row:
    """Routes asked without a key; the control is a service without keys."""
    routes = [("POST", "/v1/suggest"), ("POST", "/v1/complete"), ("POST", "/v1/score"),
              ("POST", "/v1/explain"), ("POST", "/v1/suggest/batch"), ("POST", "/admin/reload"),
              ("GET", "/metrics"), ("GET", "/docs"), ("GET", "/openapi.json")]  # fmt: skip
    body = {"query": "paris", "prefix": "pa", "candidates": ["a"], "requests": []}
    with service(
        served_models().adjacency, NEXTQUERY_KEYS=KEYS, NEXTQUERY_ADMIN_KEYS=KEYS
    ) as server:
        held = sum(
            (_status(server, path) if method == "GET" else server.send(method, path, body)) == 401
            for method, path in routes
        )
    with service(served_models().adjacency) as server:
        entered = server.send("POST", "/v1/suggest", {"query": "paris"}) == 200
    return Row(AREA, "without a key nothing is told", len(routes), held, "no keys set", entered)


def hostile_requests_do_no_harm(quick: bool) -> Row:
    """Bodies, heads and ways of sending that are made to harm; the control reads them plainly."""
    headers = {"X-API-Key": KEY, "X-Admin-Key": KEY}
    with tempfile.TemporaryDirectory() as place:
        blocklist = Path(place, "blocked.txt")
        blocklist.write_text("badword\n", encoding="utf-8")
        options = ("--feedback", f"{place}/feedback", "--blocklist", str(blocklist))
        with service(
            served_models().adjacency, *options, NEXTQUERY_KEYS=KEYS, NEXTQUERY_ADMIN_KEYS=KEYS
        ) as server:
            port = int(server.url.rsplit(":", 1)[1])
            sent = list(attacks(headers, quick))
            found = [
                f"{attack.name}: {wrong}" for attack in sent if (wrong := problem(port, attack))
            ]
            if "Traceback" in server.log.read_text() or _status(server, "/readyz") != 200:
                found.append("the service is not well afterwards")
    broken = sum(not _read_plainly(attack.pieces[0]) for attack in sent)
    return Row(
        AREA,
        "a hostile request is answered with a success or one problem, never 500",
        len(sent),
        max(0, len(sent) - len(found)),
        "a program that reads it plainly",
        broken,
        "; ".join(found)[:300],
    )


def _read_plainly(request: bytes) -> bool:
    try:
        head, _, body = request.decode().partition("\r\n\r\n")
        method, _, _ = head.splitlines()[0].split()
        return method == "GET" or bool(json.loads(body)["query"].encode())
    except Exception:  # any, as a 500 would be
        return False


def memory_levels_off(quick: bool) -> Row:
    """New session ids without end; the control keeps them all."""
    half = 600 if quick else 50_000
    bounded = _growth(half, ("--max-sessions", "500", "--cache-size", "500"))
    unbounded = _growth(half, ("--max-sessions", "1000000", "--cache-size", "0"))
    return Row(
        AREA,
        "memory does not grow with sessions",
        1,
        bounded[1] <= 500,
        "no bound on sessions",
        unbounded[1] > 500,
        f"{2 * half:,} sessions: +{bounded[0]:.1f} MB in the second half",
    )


def _growth(half: int, bounds: tuple[str, ...]) -> tuple[float, float]:
    """How much memory grew in the second half, and how many sessions are held."""
    with service(served_models().adjacency, *bounds) as server:
        marks = []
        for seed in (0, 1):
            Load(
                server, served_models().words, clients=8, requests=half, sessions=True, seed=seed
            ).result()
            marks.append(server.memory_mb())
        return marks[1] - marks[0], server.metric("nextquery_sessions ")


TESTS = (
    reloads_refuse_nobody,
    stops_lose_nothing,
    a_killed_model_comes_back,
    a_stopped_model_is_noticed,
    worst_requests_are_bounded,
    an_overload_is_refused_not_queued,
    strangers_stay_out,
    hostile_requests_do_no_harm,
    memory_levels_off,
    floods_count_little,
    floods_are_refused,
)
