"""A user's earlier queries before the context: how many, and whether rankers gain.

On AOL logs, which are not shipped, and on a synthetic log, where each session has an intent of its
own. How many queries are put in front is chosen by the validation sessions, with HRED alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.evaluation.scenario_features import (
    build_cases,
    lengthened,
    read_earlier_queries,
    read_evaluation_data,
)
from nextquery.evaluation.scenarios import Rules
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import reciprocal_ranks
from nextquery.ranking.scoring import CaseScorer
from nextquery.suggesters.loading import load
from research.aol import COPYING, EVERY_CONTEXT, NEXT_QUERY, QUICK, known
from research.commands import make, report_of, save
from research.summary import summarise
from research.tables import TITLES, gain, interval, mrr_text, p_value, read, table

Document = Mapping[str, Any]
NUMBERS = (0, 1, 2, 3, 5, 10)
TAKEN = "3"
"""The number of earlier queries that the published rankers use."""

CASES = 500
"""Most validation cases of each scenario."""

FORMS = {"next_query": "sum", "every_context": "lift"}
"""The form of the score by which HRED orders candidates alone: what suits the scenario."""

EVERY = ("--ranker-positions", "every", "--earlier-queries", TAKEN)
LOGS = {"aol": "AOL", "synthetic": "synthetic"}


def aol(work: Path, logs: Sequence[Path]) -> None:
    """Known visitors of AOL, with copying: how many queries, two scenarios, every context."""
    options = known(work, logs, "copying", COPYING)
    _save("aol", {"validation": by_number(Path(options[0]), work / "copying", Rules(5))})
    _save("aol", report_of(work / "report-earlier", [*options, *NEXT_QUERY, *EVERY]), "scenarios")
    apart = [*options, *EVERY_CONTEXT, "--earlier-queries", TAKEN]
    _save("aol", report_of(work / "report-earlier-contexts", apart), "contexts")


def synthetic(work: Path) -> None:
    """The same on a synthetic log of 30,000 sessions with `tiny`."""
    log, data, model = (work / name for name in ("log.tsv", "data", "hred"))
    make(log, ["synth", str(log), "--sessions", "30000", "--seed", "1"])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling"])
    make(model, ["train", str(data), "--out", str(model), "--config", "tiny"])
    _save("synthetic", {"validation": by_number(data, model, Rules())})
    options = [str(data), f"--model=hred={model}", *QUICK, "--visitors", "known"]
    short = ["--scenario", "next_query", "--scenario", "robust", "--scenario", "long_tail"]
    _save("synthetic", report_of(work / "report-earlier", [*options, *short, *EVERY]), "scenarios")


def by_number(data: Path, model: Path, rules: Rules) -> dict[str, Any]:
    """The model alone on validation cases, by how many earlier queries it sees.

    Lists never repeat a query of the context, so the cases whose true next query is none of the
    earlier ones are shown apart: `others`.
    """
    prepared = PreparedData(data)
    evaluation, scorer = read_evaluation_data(prepared), CaseScorer(load(model))
    earlier = {number: read_earlier_queries(prepared, number) for number in NUMBERS if number}
    results: dict[str, Any] = {}
    for scenario, form in FORMS.items():
        cases = build_cases(scenario, evaluation, rules, CASES)["validation"]
        seen = {0: cases} | {number: queries.added_to(cases) for number, queries in earlier.items()}
        ranks = {
            number: reciprocal_ranks(cases, scorer.score(lengthened(lengthened_cases)).form(form))
            for number, lengthened_cases in seen.items()
        }
        latest = seen[int(TAKEN)].cases
        not_earlier = np.array([case.next_query not in case.earlier for case in latest])
        results[scenario] = {
            "cases": len(cases),
            "with_earlier": round(float(np.mean([bool(case.earlier) for case in latest])), 4),
            "others": int(not_earlier.sum()),
            "mrr": {str(number): round(float(rank.mean()), 4) for number, rank in ranks.items()},
            "mrr_of_others": {
                str(number): round(float(rank[not_earlier].mean()), 4)
                for number, rank in ranks.items()
            },
        }
    return results


def _save(log: str, results: Document, part: str = "") -> None:
    """Add results of one log to docs/results/earlier.json."""
    try:
        committed = read("earlier")
    except FileNotFoundError:
        committed = {}
    new = {part: summarise(results)} if part else dict(results)
    save("earlier", {**committed, log: {**committed.get(log, {}), **new}})


def rankers() -> str:
    """The rankers that may use the earlier queries against those that may not."""
    heads = ["log", "scenario", "test cases", "Baseline", "+ HRED", "+ HRED, earlier queries"]
    heads += ["over Baseline", "p by user", "over + HRED", "95% interval", "p by user"]
    rows = []
    for title, scenario in _scenarios():
        whole = scenario["gains"]["baseline+hred:earlier over baseline"]
        more = scenario["gains"]["baseline+hred:earlier over baseline+hred"]
        systems = ("baseline", "baseline+hred", "baseline+hred:earlier")
        cells = [*title, *(mrr_text(scenario["mrr"][name]) for name in systems)]
        cells += [gain(whole), p_value(whole["p_by_user"])]
        rows.append([*cells, gain(more), interval(more), p_value(more["p_by_user"])])
    return table(heads, rows)


def letters() -> str:
    """What HRED adds where the Baseline Ranker also has the earlier queries."""
    heads = ["log", "scenario", "test cases", "HRED alone", "with earlier queries", "p by user"]
    heads += ["Baseline with earlier queries", "over Baseline", "p by user", "the same + HRED"]
    heads += ["gain", "95% interval", "p by user"]
    rows = []
    for title, scenario in _scenarios():
        gains, mrr = scenario["gains"], scenario["mrr"]
        lift = FORMS.get(title[1].replace(" ", "_")) == "lift"
        alone = "hred:lift" if lift else "hred"
        longer = "hred:earlier_lift" if lift else "hred:earlier_sum"
        known = gains["baseline_earlier over baseline"]
        added = gains["baseline_earlier+hred over baseline_earlier"]
        cells = [*title, mrr_text(mrr[alone]), mrr_text(mrr[longer])]
        cells += [p_value(gains[f"{longer} over {alone}"]["p_by_user"])]
        cells += [mrr_text(mrr["baseline_earlier"]), gain(known), p_value(known["p_by_user"])]
        cells += [mrr_text(mrr["baseline_earlier+hred"]), gain(added), interval(added)]
        rows.append([*cells, p_value(added["p_by_user"])])
    return table(heads, rows)


def _scenarios() -> list[tuple[list[str], Document]]:
    """Every scenario of both logs, with its first cells."""
    return [
        ([LOGS[log], TITLES[name], f"{scenario['cases']['test']:,}"], scenario)
        for log, parts in read("earlier").items()
        for part in ("scenarios", "contexts")
        for name, scenario in parts.get(part, {}).get("scenarios", {}).items()
    ]
