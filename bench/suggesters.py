"""What the count models cost: fit time, memory, size, load time and latency, and how they grow.

Synthetic logs of N and 4 N sessions, all queries known (`--min-users 1`, largest models), nearly
all of the log in the background; contexts are those of the sessions after it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KINDS = ("popularity", "adjacency", "qvmm", "cacb", "shortcuts")
SPLIT = "2006-05-26,2006-05-27,2006-05-28"
TARGETS = {
    "adjacency": {"fit_s": 15.0, "p99_ms": 1.0, "memory_mb": 2000.0},
    "qvmm": {"fit_s": 60.0, "p99_ms": 1.0, "memory_mb": 2000.0},
    "shortcuts": {"p99_ms": 20.0, "memory_mb": 2000.0},
}


def main(quick: bool) -> dict[str, Any]:
    sizes = (5_000, 20_000) if quick else (275_000, 1_100_000)
    with tempfile.TemporaryDirectory() as folder:
        small, large = (_measure(Path(folder), sessions) for sessions in sizes)
    growth = {
        kind: {name: large["models"][kind][name] / small["models"][kind][name] for name in values}
        for kind, values in small["models"].items()
    }
    met = {
        kind: {name: large["models"][kind][name] <= limit for name, limit in limits.items()}
        for kind, limits in TARGETS.items()
    }
    result = {"small": small, "large": large, "growth_with_4_times_the_log": growth}
    return result if quick else {**result, "targets": TARGETS, "met": met}


def _measure(folder: Path, sessions: int) -> dict[str, Any]:
    from nextquery.logs.data_folder import PreparedData

    log, data = folder / f"{sessions}.tsv", folder / f"{sessions}-data"
    _run("synth", log, "--sessions", sessions)
    _run("prepare", log, "--out", data, "--min-users", 1, "--no-spelling", "--split-at", SPLIT)
    log.unlink()
    prepared = PreparedData(data)
    contexts = [session.queries[:-1] for session in prepared.sessions("test")][:2000]
    models = {}
    for kind in KINDS:
        print(f"{sessions} sessions: {kind}", file=sys.stderr)
        models[kind] = _measure_model(kind, data, folder / f"{sessions}-{kind}", contexts)
    counts = prepared.artifact.manifest["counts"]
    return {
        "background_sessions": counts["sessions"]["background"],
        "background_queries": counts["queries"]["background"],
        "contexts": len(contexts),
        "models": models,
    }


def _measure_model(kind: str, data: Path, out: Path, contexts: list[Any]) -> dict[str, float]:
    from nextquery import load

    fitted, memory, cpu = _run("fit", data, "--kind", kind, "--out", out, "--json")
    loads = [_seconds(lambda: load(out)) for _ in range(5)]
    model = load(out)
    for context in contexts[:50]:
        model.suggest(context)
    # The best of five: what the model costs a context, not what else the machine is doing.
    took = sorted(
        min(_seconds(lambda c=context: model.suggest(c)) for _ in range(5)) for context in contexts
    )
    answered = sum(bool(model.suggest(context)) for context in contexts)
    return {
        "fit_s": json.loads(fitted)["seconds"],
        "fit_cpu_s": cpu,
        "memory_mb": memory,
        "size_mb": json.loads(fitted)["bytes"] / 1e6,
        "load_ms": min(loads) * 1000,
        "p50_ms": took[len(took) // 2] * 1000,
        "p99_ms": took[int(len(took) * 0.99)] * 1000,
        "answered": answered / len(contexts),
    }


def _run(*arguments: Any) -> tuple[str, float, float]:
    """The output of a command, the most memory that it took in MB, its seconds on all cores."""
    command = [sys.executable, "-m", "nextquery", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return output, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
