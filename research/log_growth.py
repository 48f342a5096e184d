"""How cost grows with the log: to make it, to prepare it, to fit or train every kind of model.

Synthetic logs, each four times the one before; every command in a process of its own, by its
CPU time on all cores, its peak memory and the size of what it writes. HRED is trained on the
smaller logs for one epoch of `tiny`, with one thread: its cost is that of the words it reads.

    python -m research log_growth > docs/results/log_growth.json
    python -m research.log_growth docs/results/log_growth.json docs/figures/log_growth.svg
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SESSIONS = {True: (1_000, 4_000), False: (8_000, 32_000, 128_000, 512_000)}
TRAINED = 32_000
KINDS = ("popularity", "adjacency", "qvmm", "cacb", "shortcuts")
PREPARE = ("--no-spelling", "--no-journal")


def main(quick: bool) -> dict[str, Any]:
    """What each command takes, by the rows of the log."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for sessions in SESSIONS[quick]:
            target = Path(folder) / str(sessions)
            target.mkdir()
            measured = _measure(target, sessions)
            rows[str(measured.pop("rows"))] = measured
            print(f"{sessions} sessions: {measured}", file=sys.stderr)
    return {"unit": "CPU seconds, MB of peak memory, MB written", "rows": rows}


def _measure(folder: Path, sessions: int) -> dict[str, Any]:
    log, data = folder / "log.tsv", folder / "data"
    shown, synth = run_measured(log, "synth", log, "--sessions", sessions, "--json")
    _, prepared = run_measured(data, "prepare", log, "--out", data, *PREPARE)
    log.unlink()
    costs = {"rows": json.loads(shown)["rows"], "synth": synth, "prepare": prepared}
    for kind in KINDS:
        model = folder / kind
        costs[kind] = run_measured(model, "fit", data, "--kind", kind, "--out", model)[1]
    if sessions <= TRAINED:
        model, once = folder / "hred", ("--set", "train.epochs=1")
        arguments = ("train", data, "--out", model, "--config", "tiny", *once)
        costs["hred, one epoch of tiny"] = run_measured(model, *arguments)[1]
    return costs


def run_measured(made: Path, *arguments: Any) -> tuple[str, dict[str, float]]:
    """The output of a command, and what it took to make the file or folder `made`."""
    command = [sys.executable, "-m", "nextquery", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
        assert process.stdout is not None
        with process.stdout as stream:
            output = stream.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)}: {errors.read()}")
    files = [made] if made.is_file() else [path for path in made.rglob("*") if path.is_file()]
    return output, {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
        "written_mb": sum(path.stat().st_size for path in files) / 1e6,
    }


def draw(result: dict[str, Any], path: Path) -> None:
    """Time, memory and size by the rows of the log, both axes logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    panels = figure.subplots(1, 3)
    titles = {
        "cpu_s": "CPU seconds",
        "peak_mb": "peak memory, MB",
        "written_mb": "written, MB",
    }
    names = list(dict.fromkeys(name for steps in result["rows"].values() for name in steps))
    for axes, (unit, title) in zip(panels, titles.items(), strict=True):
        for name in names:
            points = [
                (int(rows), steps[name][unit])
                for rows, steps in result["rows"].items()
                if name in steps
            ]
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("rows of the log")
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
