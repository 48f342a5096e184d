"""The service under load, from a second process on loopback: latency, overload, faults, memory.

The variable `NEXTQUERY_BENCH_SERVE` chooses sections (names separated by commas). All are bounded
in count and time.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.serving.load import quantile
from bench.serving.models import Models, make_models
from bench.serving.processes import Load, Redis, Server, load, plain, service

ADMIN = "a-key-for-the-benchmark-only"
PATIENT = ("--budget-ms", "60000", "--queue-size", "512")
ALIKE: dict[str, Any] = {"specificity": 0, "known": "free"}
CLIENTS_AT_CAPACITY = 8
"""Two batches: one is computed while the other waits, so that the model never pauses and nobody is
refused. More clients would measure how fast the service refuses."""


def main(quick: bool) -> dict[str, Any]:
    chosen = os.environ.get("NEXTQUERY_BENCH_SERVE", "")
    names = [name for name in chosen.split(",") if name] or list(SECTIONS)
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(Path(folder), quick, paper_size="latency" in names)
        return {name: section(name, models, quick) for name in names}


def section(name: str, models: Models, quick: bool) -> dict[str, Any]:
    """One section; what it cannot do costs no other its figures."""
    try:
        return SECTIONS[name](models, quick)
    except Exception as error:
        print(f"{name}: {error}", file=sys.stderr)
        return {"not_run": f"{type(error).__name__}: {error}"[:500]}


def latency(models: Models, quick: bool) -> dict[str, Any]:
    """p50/p95/p99 unloaded, requests/s with 16 clients; ratios against the plain handler.

    `alike` ranks as the plain handler does, by likelihood with beam 10; `default` is what a request
    gets that asks for nothing else.
    """
    seconds = 2 if quick else 5
    figures: dict[str, Any] = {}
    for size, path in models.hred.items():
        with plain(path) as server:
            against = _measured(server, models.words, seconds, size == "paper")
        figures[size] = {"plain handler": against}
        for workers in (1, 2):
            with service(path, *PATIENT, workers=workers) as server:
                for settings, options in (("alike", ALIKE), ("default", {})):
                    asked = (server, models.words, seconds, size == "paper", options)
                    figures[size][_named(settings, workers)] = _against(_measured(*asked), against)
    return figures


def redis_latency(models: Models, quick: bool) -> dict[str, Any]:
    """The same with sessions in Redis, one and two workers."""
    seconds, path = 2 if quick else 5, next(iter(models.hred.values()))
    redis = Redis()
    try:
        figures = {}
        for workers in (1, 2):
            options = (*PATIENT, "--sessions", redis.url)
            with service(path, *options, workers=workers) as server:
                figures[_named("default", workers)] = _measured(
                    server, models.words, seconds, False
                )
        return figures
    finally:
        redis.kill()


def counts(models: Models, quick: bool) -> dict[str, Any]:
    """Requests per second of a count model, one and two workers, and the CPU time of each."""
    seconds, figures = 2 if quick else 6, {}
    for workers in (1, 2):
        with service(models.adjacency, *PATIENT, workers=workers) as server:
            figures[_named("adjacency", workers)] = _measured(server, models.words, seconds, False)
    return figures


def offered(models: Models, quick: bool) -> dict[str, Any]:
    """Latency against offered load, one and two workers, the default settings."""
    seconds, path = 2 if quick else 5, next(iter(models.hred.values()))
    figures: dict[str, Any] = {}
    for workers in (1, 2):
        with service(path, workers=workers) as server:
            load(server, models.words, clients=2, requests=20)
            busy = load(server, models.words, clients=CLIENTS_AT_CAPACITY, seconds=seconds)
            capacity = busy["answered_per_s"]
            figures[str(workers)] = {"capacity_per_s": capacity, "points": []}
            for share in (0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.2):
                rate = share * capacity
                seen = load(server, models.words, rate=rate, seconds=seconds, seed=1)
                point = {key: seen[key] for key in ("p50_ms", "p99_ms", "answered_per_s")}
                point |= {"share": share, "offered_per_s": rate, "statuses": seen["statuses"]}
                figures[str(workers)]["points"].append(point)
    return figures


def _named(settings: str, workers: int) -> str:
    return f"{settings}, {workers} worker{'s' * (workers > 1)}"


def _against(figures: dict[str, float], plainly: dict[str, float]) -> dict[str, float]:
    return {
        **figures,
        "throughput_ratio": figures["requests_per_s"] / plainly["requests_per_s"],
        "p50_ratio": figures["p50_ms"] / plainly["p50_ms"],
        "cpu_ratio": plainly["cpu_ms_per_request"] / figures["cpu_ms_per_request"],
    }


def _measured(
    server: Server,
    words: list[str],
    seconds: float,
    large: bool,
    options: dict[str, Any] | None = None,
) -> dict[str, float]:
    every = {"sessions": True, "options": options or {}}
    load(server, words, clients=1, requests=5, options=every["options"])
    alone = load(server, words, clients=1, seconds=seconds, **every)
    before = server.cpu_seconds()
    busy = load(server, words, clients=8 if large else 16, seconds=seconds, seed=1, **every)
    used = server.cpu_seconds() - before
    return {
        **{key: alone[key] for key in ("p50_ms", "p95_ms", "p99_ms")},
        "requests_per_s": busy["answered_per_s"],
        "busy_p99_ms": busy["p99_ms"],
        "cpu_ms_per_request": 1000 * used / max(1, busy["statuses"].get("200", 0)),
    }


def overload(models: Models, quick: bool) -> dict[str, Any]:
    """Twice the capacity offered: who is answered, how fast, and how soon it is over.

    `own_...`: by the service's log, without what the asking process waits for the processor.
    """
    seconds = 5 if quick else 60
    with service(next(iter(models.hred.values()))) as server:
        words = models.words
        load(server, words, clients=2, requests=20)
        marks = [server.log.stat().st_size]
        alone = load(server, words, clients=1, seconds=seconds / 4)
        own_alone = quantile(server.answered_ms(marks[0]), 0.99) / 1000
        busy = load(server, words, clients=CLIENTS_AT_CAPACITY, seconds=seconds / 4, seed=1)
        capacity = busy["answered_per_s"]
        marks.append(server.log.stat().st_size)
        flood = load(server, words, rate=2 * capacity, seconds=seconds, seed=2)
        own_flood = quantile(server.answered_ms(marks[1]), 0.99) / 1000
        calm = time.perf_counter()
        while load(server, words, clients=1, requests=5)["p99_ms"] > 1.5 * alone["p99_ms"]:
            if time.perf_counter() - calm > 10:
                break
        recovery = time.perf_counter() - calm
    return {
        "capacity_per_s": capacity,
        "statuses_at_capacity": busy["statuses"],
        "offered_per_s": 2 * capacity,
        "seconds": seconds,
        "statuses": flood["statuses"],
        "unloaded_p99_ms": alone["p99_ms"],
        "accepted_p99_ms": flood["p99_ms"],
        "p99_ratio": flood["p99_ms"] / alone["p99_ms"],
        "p99_ratio_after_first_second": flood["later_p99_ms"] / alone["p99_ms"],
        "own_unloaded_p99_ms": own_alone,
        "own_accepted_p99_ms": own_flood,
        "own_p99_ratio": own_flood / own_alone,
        "goodput_ratio": flood["answered_per_s"] / capacity,
        "normal_again_within_s": recovery,
    }


def overload_busy(models: Models, quick: bool) -> dict[str, Any]:
    """The same next to a program that uses a core; also against the quiet machine's latency."""
    with service(next(iter(models.hred.values()))) as server:
        load(server, models.words, clients=2, requests=20)
        quiet = load(server, models.words, clients=1, seconds=2 if quick else 10)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as burning:
        try:
            figures = overload(models, quick)
        finally:
            burning.kill()
    return {
        **figures,
        "quiet_p99_ms": quiet["p99_ms"],
        "p99_against_quiet": figures["accepted_p99_ms"] / quiet["p99_ms"],
    }


def reloads(models: Models, quick: bool) -> dict[str, Any]:
    """Models loaded again under half of the capacity."""
    import hashlib

    count = 3 if quick else 20
    key = f"bench:{hashlib.sha256(ADMIN.encode()).hexdigest()}"
    with service(next(iter(models.hred.values())), NEXTQUERY_ADMIN_KEYS=key) as server:
        busy = load(server, models.words, clients=CLIENTS_AT_CAPACITY, seconds=3)
        capacity = busy["answered_per_s"]
        under = Load(server, models.words, rate=capacity / 2, seconds=3 * count)
        answers = []
        for _ in range(count):
            answers.append(server.send("POST", "/admin/reload", None, **{"X-Admin-Key": ADMIN}))
        within = under.running
        seen = under.result()
    failed = sum(number for status, number in seen["statuses"].items() if status != "200")
    return {
        "reloads": answers.count(200),
        "all_under_load": within,
        "requests": sum(seen["statuses"].values()),
        "failed_requests": failed,
        "statuses": seen["statuses"],
        "p99_ms": seen["p99_ms"],
    }


def cancelled(models: Models, quick: bool) -> dict[str, Any]:
    """Clients that close the connection right after asking."""
    import socket

    clients = 100 if quick else 1000
    with service(next(iter(models.hred.values())), "--queue-size", "2000") as server:
        host, port = server.url.removeprefix("http://").split(":")
        body = b'{"query": "left early", "context": ["%d"]}'
        for number in range(clients):
            with socket.create_connection((host, int(port))) as connection:
                asked = body % number
                head = b"POST /v1/suggest HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(asked) + asked)
        begin = time.perf_counter()
        while server.metric("nextquery_requests_in_flight") > 1:
            if time.perf_counter() - begin > 30:
                break
        return {
            "clients": clients,
            "queue_after": server.metric("nextquery_queue_length"),
            "in_flight_after": server.metric("nextquery_requests_in_flight") - 1,
            "empty_after_s": time.perf_counter() - begin,
            "cancelled_in_the_queue": server.metric("nextquery_requests_cancelled_total"),
        }


def shutdowns(models: Models, quick: bool) -> dict[str, Any]:
    """Services stopped while 8 clients ask without pause; the next one starts afresh."""
    count = 2 if quick else 20
    lost = answered = 0
    codes = []
    for number in range(count):
        with service(next(iter(models.hred.values())), "--drain-seconds", "0.5") as server:
            under = Load(server, models.words, clients=8, seconds=60, seed=number)
            time.sleep(1.0)
            codes.append(server.stop())
            seen = under.result()
        lost += sum(n for status, n in seen["statuses"].items() if status.startswith("lost"))
        answered += seen["statuses"].get("200", 0)
    return {
        "shutdowns": count,
        "answered": answered,
        "accepted_and_lost": lost,
        "exit_codes": sorted(set(codes)),
    }


def redis_death(models: Models, quick: bool) -> dict[str, Any]:
    """Redis killed and started again under load."""
    redis = Redis()
    try:
        options = ("--sessions", redis.url, *PATIENT)
        with service(next(iter(models.hred.values())), *options) as server:
            under = Load(server, models.words, clients=4, seconds=9, sessions=True)
            time.sleep(3)
            redis.kill()
            time.sleep(3)
            without = server.metric("nextquery_sessions_unavailable_total")
            redis.start()
            back = time.perf_counter()
            time.sleep(2)
            after = server.metric("nextquery_sessions_unavailable_total")
            time.sleep(0.5)
            steady = server.metric("nextquery_sessions_unavailable_total")
            seen = under.result()
        return {
            "statuses": seen["statuses"],
            "p99_ms": seen["p99_ms"],
            "answered_without_redis": without,
            "sessions_back_within_s": 2.0 if steady == after else time.perf_counter() - back,
        }
    finally:
        redis.kill()


def schema(models: Models, quick: bool) -> dict[str, Any]:
    """Schemathesis over the OpenAPI document, valid and invalid requests."""
    import hashlib

    key = f"bench:{hashlib.sha256(ADMIN.encode()).hexdigest()}"
    with (
        tempfile.TemporaryDirectory() as folder,
        service(
            next(iter(models.hred.values())), *PATIENT, "--feedback", folder, "--public", "docs",
            NEXTQUERY_KEYS=key, NEXTQUERY_ADMIN_KEYS=key,
        ) as server,
    ):  # fmt: skip
        command = [
            "schemathesis", "run", server.url + "/openapi.json", "--mode", "all",
            "--header", f"X-API-Key: {ADMIN}", "--header", f"X-Admin-Key: {ADMIN}",
            "--max-examples", "10" if quick else "100", "--seed", "1",
            "--request-timeout", "60",  # a reload answers when the new model is warm
        ]  # fmt: skip
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    lines = [line for line in ended.stdout.splitlines() if "generated" in line]
    return {"exit_code": ended.returncode, "cases": lines[-1].strip() if lines else ended.stdout}


def memory(models: Models, quick: bool) -> dict[str, Any]:
    """Requests that each bring a new session id: memory in the second half.

    Sessions, answers and encoded contexts are bounded to 1,000 each, so that all are full long
    before the first half ends.
    """
    name, hred = next(iter(models.hred.items()))
    return {
        "adjacency": _memory(models.adjacency, models.words, 2_000 if quick else 50_000),
        name: _memory(hred, models.words, 500 if quick else 25_000),
    }


def _memory(model: Path, words: list[str], half: int) -> dict[str, Any]:
    bounds = ("--max-sessions", "1000")
    with service(model, *PATIENT, *bounds) as server:
        marks = [server.memory_mb()]
        statuses = []
        for seed in (0, 1):
            seen = load(server, words, clients=8, requests=half, sessions=True, seed=seed)
            statuses.append(seen["statuses"])
            marks.append(server.memory_mb())
        return {
            "requests": 2 * half,
            "statuses": statuses,
            "memory_mb": marks,
            "grown_in_second_half_mb": marks[2] - marks[1],
            "sessions_held": server.metric("nextquery_sessions "),
            "requests_per_s": seen["answered_per_s"],
        }


SECTIONS: dict[str, Callable[[Models, bool], dict[str, Any]]] = {
    "latency": latency,
    "redis_latency": redis_latency,
    "counts": counts,
    "offered": offered,
    "overload": overload,
    "overload_busy": overload_busy,
    "reloads": reloads,
    "cancelled": cancelled,
    "shutdowns": shutdowns,
    "redis": redis_death,
    "schema": schema,
    "memory": memory,
}
