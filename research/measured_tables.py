"""Tables of docs/results about time, memory and data."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from research.tables import mrr_text, read, table

Document = Mapping[str, Any]


def softmax() -> str:
    """Exact against sampled loss on the same sessions with the same seed."""
    document = read("softmax")
    steps = [step for step, _ in document["exact"]["validation"]]
    heads = ["loss", "CPU ms per step", *(f"perplexity after {step:,} steps" for step in steps)]
    rows = []
    for loss in ("exact", "sampled"):
        run = document[loss]
        cells = [f"{perplexity:.2f}" for _, perplexity in run["validation"]]
        rows.append([loss, f"{run['cpu_ms_per_step']:.0f}", *cells])
    return table(heads, rows)


COMMANDS = {
    "synth": "`nextquery synth`",
    "prepare": "`nextquery prepare`",
    "inspect": "`nextquery inspect`",
    "train": "`nextquery train`, stopped by Ctrl-C",
    "resume": "`nextquery train --resume`, stopped by Ctrl-C",
    "end": "`nextquery train --resume --set train.max_steps=1`",
    "adjacency": "`nextquery fit --kind adjacency`",
    "qvmm": "`nextquery fit --kind qvmm`",
    "suggest": "`nextquery suggest --preset paper`",
    "experiment": "`nextquery experiment`, a part",
}


def reproduction() -> str:
    """CPU time and memory of every command of the reproduction."""
    commands = read("reproduction")["commands"]
    rows = [
        [title, duration(commands[name]["cpu_s"]), f"{commands[name]['peak_mb'] / 1024:.1f} GB"]
        for name, title in COMMANDS.items()
        if name in commands
    ]
    return table(["command", "CPU time, one thread", "peak memory"], rows)


def reproduction_training() -> str:
    """How far the training of the reproduction came, and in which time."""
    document = read("reproduction")
    curve = document["training"]
    shown = curve["validation"][:: max(1, len(curve["validation"]) // 5)]
    validations = [f"{value:,.0f} after {step:,}" for step, value in shown]
    parts = [
        f"{duration(record['elapsed_s'])} ({duration(record['cpu_s'])})" if record else "not kept"
        for record in (document["commands"].get(name) for name in ("train", "resume"))
    ]
    heads = ["until Ctrl-C: clock (CPU time)", "resumed", "steps", "validation perplexity"]
    return table(heads, [[*parts, f"{curve['steps']:,}", "; ".join(validations)]])


def duration(seconds: float) -> str:
    """Seconds as a reader wants them.

    >>> duration(34.3), duration(250), duration(7500)
    ('34 s', '4 min 10 s', '2 h 05 min')
    """
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def experiment_time() -> str:
    """The time of an experiment as a whole, and CPU seconds by step, the most expensive first."""
    document = read("experiment_time")
    day = date.fromisoformat(document["date"])
    whole = (
        f"**{duration(document['elapsed_s'])} on two cores, {document['cpu_s']:,} CPU seconds, "
        f"{document['peak_gb']} GB** ({day.day} {day:%B %Y}). CPU seconds by step:"
    )
    ordered = sorted(document["steps"].items(), key=lambda item: -item[1])
    rows = [[name, f"{seconds:.0f}"] for name, seconds in ordered]
    return f"{whole}\n\n{table(['step', 'CPU seconds'], rows)}"


def growth() -> str:
    """What each command takes by the rows of the log."""
    document = read("log_growth")["rows"]
    names = list(next(iter(document.values())))
    rows = [
        [name, *(_growth_cell(measured.get(name)) for measured in document.values())]
        for name in names
    ]
    heads = ["CPU seconds (peak MB)", *(f"{int(rows_read):,} rows" for rows_read in document)]
    return table(heads, rows)


def _growth_cell(measured: Document | None) -> str:
    return f"{measured['cpu_s']:.1f} ({measured['peak_mb']:.0f})" if measured else ""


def serving() -> str:
    """Latency of the service by requests offered per second."""
    document = read("serving")["workers"]
    rows = [
        [workers, f"{point['offered']:.0f}", f"{point['answered']:.0f}",
         f"{point['p50_ms']:.1f}", f"{point['p99_ms']:.1f}"]
        for workers, points in document.items()
        for point in points
    ]  # fmt: skip
    return table(["workers", "offered per s", "answered per s", "p50, ms", "p99, ms"], rows)


def grids() -> str:
    """Rankers by the grid that their features are rounded to."""
    document = read("grids")["grids"]
    heads = ["features rounded to", "rankers with the same trees under noise of 1e-7"]
    heads += ["largest change of an MRR", "MRR, mean of five seeds"]
    rows = [
        [name, f"{measured['same_trees']} of {measured['rankers']}",
         mrr_text(measured["largest_move"]) if measured["largest_move"] else "0",
         f"{measured['mrr']:.4f}".lstrip("0")]
        for name, measured in document.items()
    ]  # fmt: skip
    return table(heads, rows)


def headroom() -> str:
    """What systems reach on the synthetic log, and an oracle that sees the hidden intent."""
    document = read("synthetic_log")
    rows = [
        [title, f"{scenario['cases']['test']:,}",
         *(mrr_text(scenario[system]["all"]) for system in ("adj", "qvmm", "baseline", "intent"))]
        for title, scenario in (
            ("next query", document["log"]["next_query"]),
            ("robust", document["log"]["robust"]),
            ("long tail", document["log"]["long_tail"]),
            ("next query, shuffled", document["control"]["next_query"]),
        )
    ]  # fmt: skip
    return table(["scenario", "cases", "ADJ", "QVMM", "Baseline Ranker", "intent (oracle)"], rows)


def data() -> str:
    """The AOL data of this page: sessions of each split, by the settings of `prepare`."""
    document = read("aol_data")
    splits = ("background", "training", "validation", "test", "unseen_users")
    rows = [
        [f"`{prepared['options']}`", *(f"{prepared['sessions'][split]:,}" for split in splits),
         f"`{prepared['checksum'][:16]}`"]
        for prepared in document["prepared"]
    ]  # fmt: skip
    heads = ["options", "background", "training", "validation", "test", "held-out users"]
    return table([*heads, "sha256 of the tables"], rows)
