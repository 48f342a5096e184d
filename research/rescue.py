"""After a query that finds nothing: is what the user typed next, and found something with, listed?

In a synthetic log it is known which queries fail: 3% of its queries come first with a typing error,
which no title of the site has, and then without it (`nextquery synth --titles`). Test contexts that
end in a failed query; the first later query with hits is the wanted one. Each model's own list with
the hits check, and the same led by the rescue model, fitted with K = 1 and K = 3.
`NEXTQUERY_BENCH_SESSIONS` is the size of the log, `NEXTQUERY_BENCH_HRED` a trained model of the
same log and seed.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nextquery import load
from nextquery.evaluation.comparison import paired_t_test
from nextquery.guard.guard import HitsCheck, read_hits
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.rescue import Rescue, rescued

FITTED = ("popularity", "adjacency", "qvmm", "shortcuts")
LISTED = 10

Case = tuple[tuple[str, ...], str]


def main(quick: bool) -> dict[str, Any]:
    """A row for each model without and with the rescue, for both K."""
    sessions = os.environ.get("NEXTQUERY_BENCH_SESSIONS", "4000" if quick else "30000")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run("synth", folder / "log.tsv", "--sessions", sessions, "--titles", folder / "titles")
        hits = read_hits(folder / "titles")
        return {f"K = {users}": rows(folder, users, hits) for users in (1, 3)}


def run(*words: object) -> None:
    """A command of nextquery, its output on stderr."""
    command = [sys.executable, "-m", "nextquery", *map(str, words)]
    subprocess.run(command, check=True, stdout=sys.stderr)


def rows(folder: Path, users: int, hits: HitsCheck) -> dict[str, Any]:
    """The models fitted to what K users typed."""
    data = folder / f"data-{users}"
    prepare = "--no-spelling", "--min-users", users
    run("prepare", folder / "log.tsv", "--out", data, *prepare)
    folders = {kind: folder / f"{kind}-{users}" for kind in FITTED}
    for kind, target in folders.items():
        run("fit", data, "--kind", kind, "--out", target)
    rescue_folder = folder / f"rescue-{users}"
    titles = "--hits", folder / "titles"
    run("fit", data, "--kind", "rescue", *titles, "--out", rescue_folder)
    if trained := os.environ.get("NEXTQUERY_BENCH_HRED"):
        folders["hred"] = Path(trained)
    cases = failed_cases(PreparedData(data), hits)
    rescue = load(rescue_folder, hits=hits)
    assert isinstance(rescue, Rescue)
    results: dict[str, Any] = {
        "cases": len(cases),
        "seen_to_fail": float(np.mean([rescue.fails(context[-1]) for context, _ in cases])),
        "rescue alone": measured(reciprocal(rescue, cases)),
    }
    for name, target in folders.items():
        results[name] = row(load(target, hits=hits), rescue, cases)
    return results


def failed_cases(data: PreparedData, hits: HitsCheck) -> list[Case]:
    """Test contexts that end in a failed query, and the next query that does not fail."""
    cases = []
    for session in data.sessions("test"):
        fine = [hits(query) for query in session.queries]
        for index, good in enumerate(fine):
            after = fine[index + 1 :]
            if not good and any(after):
                wanted = session.queries[index + 1 + after.index(True)]
                if wanted not in session.queries[:index]:
                    cases.append((session.queries[: index + 1], wanted))
    return cases


def row(model: Suggester, rescue: Rescue, cases: Sequence[Case]) -> dict[str, Any]:
    """One model alone and led by the rescue."""
    alone, led = reciprocal(model, cases), reciprocal(model, cases, rescue)
    return {"alone": measured(alone), "led": measured(led), "p": paired_t_test(led, alone)}


def reciprocal(
    model: Suggester, cases: Sequence[Case], rescue: Rescue | None = None
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """The reciprocal rank of the wanted query in each list."""
    values = []
    for context, wanted in cases:
        suggestions = model.suggest(context, LISTED)
        if rescue is not None:
            suggestions = rescued(suggestions, rescue.suggest(context, LISTED), LISTED)
        texts = [suggestion.text for suggestion in suggestions]
        values.append(1 / (texts.index(wanted) + 1) if wanted in texts else 0.0)
    return np.array(values)


def measured(values: "np.ndarray[Any, np.dtype[np.float64]]") -> dict[str, float]:
    """MRR with the half width of its 95 % interval, and hits at 1 and 5."""
    half = 1.96 * float(values.std()) / max(1, len(values)) ** 0.5
    hits = {f"hit_at_{n}": float((values >= 1 / n).mean()) for n in (1, 5)}
    return {"mrr": float(values.mean()), "half_width": half, **hits}
