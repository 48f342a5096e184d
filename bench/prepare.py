"""`prepare` against a plain pandas version of the same work, on a synthetic log.

Each version runs in a process of its own, which reports its time on the clock, its CPU time
and its peak memory. The pandas version does what `prepare --no-spelling` does: read, normalise,
drop, cut sessions, split, count with distinct users, write Parquet.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SESSIONS = {True: 20_000, False: 664_000}
MIN_USERS = 3


def main(quick: bool) -> dict[str, Any]:
    from nextquery.logs.synthetic.log import write_log

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.tsv"
        rows = write_log(log, SESSIONS[quick], 1).rows
        versions = ("pandas", "polars", "duckdb", "polars with spelling")
        measured = {name: _measure(name, log) for name in versions}
    pandas, polars = measured["pandas"], measured["polars"]
    spelled = measured["polars with spelling"]
    return {
        "rows": rows,
        "measured": measured,
        "rows_per_second": rows / polars["seconds"],
        "faster_than_pandas": pandas["seconds"] / polars["seconds"],
        "less_processor_time_than_pandas": pandas["processor_s"] / polars["processor_s"],
        "less_memory_than_pandas": pandas["peak_mb"] / polars["peak_mb"],
        "spelling_adds_s": spelled["seconds"] - polars["seconds"],
        "same_sessions": pandas["sessions"] == polars["sessions"] == measured["duckdb"]["sessions"],
    }


def _measure(version: str, log: Path) -> dict[str, Any]:
    command = [
        sys.executable,
        __file__,
        version,
        str(log),
        str(log.parent / version.replace(" ", "-")),
    ]
    figures: dict[str, Any] = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    )
    return figures


def _with_nextquery(version: str, log: Path, out: Path) -> int:
    from nextquery.logs.prepare import prepare
    from nextquery.logs.settings import PrepareSettings

    engine, _, spelling = version.partition(" ")
    settings = PrepareSettings(engine=engine, spelling=bool(spelling), min_users=MIN_USERS)
    return sum(prepare([log], out, settings)["counts"]["sessions"].values())


def _with_pandas(log: Path, out: Path) -> int:
    import pandas as pd

    from nextquery.logs.privacy import looks_personal
    from nextquery.normalise import normalise_query

    rows = pd.read_csv(log, sep="\t", quoting=3, dtype=str, keep_default_na=False)
    rows["time"] = pd.to_datetime(rows["QueryTime"], format="%Y-%m-%d %H:%M:%S")
    rows["row"] = range(len(rows))
    texts = {text: normalise_query(text) for text in rows["Query"].unique()}
    kept = {raw: text for raw, text in texts.items() if text and not looks_personal(raw)}
    rows["query"] = rows["Query"].map(kept)
    rows = rows[rows["query"].notna()].sort_values(["AnonID", "time", "row"])
    rows["clicks"] = (rows["ClickURL"] != "").astype("int32")
    starts = (rows["AnonID"] != rows["AnonID"].shift()) | (
        rows["time"].diff() > pd.Timedelta(minutes=30)
    )
    rows["session"] = starts.cumsum()
    rows["run"] = (starts | (rows["query"] != rows["query"].shift())).cumsum()
    span = rows["time"].max() - rows["time"].min()
    cuts = [rows["time"].min() + span * days / 92 for days in (61, 75, 83)]
    begin = rows.groupby("session")["time"].transform("min")
    rows["split"] = sum((begin >= cut).astype(int) for cut in cuts)
    first = {"session": "first", "AnonID": "first", "time": "first", "query": "first"}
    merged = rows.groupby("run").agg({**first, "split": "first", "clicks": "sum"})
    several = merged[merged.groupby("session")["query"].transform("size") > 1]
    out.mkdir(parents=True, exist_ok=True)
    for split, part in several.groupby("split"):
        part.to_parquet(out / f"sessions-{split}.parquet")
    _count_with_pandas(several[several["split"] == 0], rows[rows["split"] == 0], out)
    return int(several["session"].nunique())


def _count_with_pandas(background: Any, rows: Any, out: Path) -> None:
    def count(table: Any, keys: list[str], name: str, at_least: int) -> Any:
        grouped = table.groupby(keys)["AnonID"].agg(["size", "nunique"]).reset_index()
        counted = grouped[grouped["nunique"] >= at_least]
        order = ["size", *keys]
        counted = counted.sort_values(order, ascending=[False] + [True] * len(keys))
        counted.to_parquet(out / f"{name}.parquet")
        return counted

    queries = count(background, ["query"], "queries", MIN_USERS)
    words = background[["AnonID", "query"]].assign(word=background["query"].str.split(" "))
    words = words.explode("word")
    after = words["word"].shift(-1)
    same = words.index == words.index.to_series().shift(-1)
    count(words, ["word"], "words", MIN_USERS)
    pairs = words.assign(second=after)[same.to_numpy()]
    count(pairs, ["word", "second"], "word_pairs", MIN_USERS)
    following = background.assign(next=background.groupby("session")["query"].shift(-1))
    known = set(queries["query"])
    following = following[following["query"].isin(known) & following["next"].isin(known)]
    count(following, ["query", "next"], "followers", 1)
    clicked = rows[(rows["ClickURL"] != "") & rows["query"].isin(known)]
    count(clicked, ["query", "ClickURL"], "clicks", 1)


def _run(version: str, log: Path, out: Path) -> None:
    start = time.perf_counter()
    with_pandas = version == "pandas"
    sessions = (
        _with_pandas(log, out / "pandas") if with_pandas else _with_nextquery(version, log, out)
    )
    usage = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "seconds": time.perf_counter() - start,
        "processor_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": _peak_mb(),
        "sessions": sessions,
    }
    print(json.dumps(figures))


def _peak_mb() -> float:
    """This process's own peak; `ru_maxrss` would start with that of the process that began it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
