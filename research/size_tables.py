"""The tables of docs/results about the size of the log."""

from collections.abc import Mapping
from typing import Any

from research.gains import HELD_OUT
from research.log_sizes import FEATURE, committed
from research.tables import TITLES, gain, interval, mrr_text, number_of_cases, p_value, read, table

Document = Mapping[str, Any]
TITLES_OF_CURVES = {"copying": "with copying", "plain": "without copying"}


def sizes() -> str:
    """Every size of each curve: rankers, the model alone, coverage and perplexity."""
    heads = ["model", "background sessions", "cases", "ADJ", "Baseline", "HRED alone"]
    heads += ["+ HRED, sum only", "95% interval", "+ HRED", "coverage ADJ / QVMM / HRED"]
    heads += ["perplexity QVMM / HRED"]
    rows = [
        [TITLES_OF_CURVES[name] if index == 0 else "", *_size_cells(point)]
        for name, points in committed().items()
        for index, point in enumerate(points)
    ]
    return table(heads, rows)


def _size_cells(point: Document) -> list[str]:
    mrr, alone, only = point["mrr"], point["alone"], point["gains"][FEATURE]
    cells = [f"{point['sessions']:,}", f"{point['cases']:,}"]
    cells += [mrr_text(mrr[system]) for system in ("adj", "baseline", "hred")]
    cells += [gain(only), interval(only), gain(point["gains"]["baseline+hred"])]
    cells.append(" / ".join(f"{alone[name]['coverage']:.0%}" for name in ("adj", "qvmm", "hred")))
    cells.append(" / ".join(f"{alone[name]['perplexity']:,.1f}" for name in ("qvmm", "hred")))
    return cells


def contexts() -> str:
    """Every context of AOL's known visitors, and of those whose every query was kept."""
    scenario = read("aol_contexts")["scenarios"]["every_context"]
    apart = scenario["by_user_group"]["full"]
    heads = ["every context", "cases", "ADJ", "HRED alone, lift", "Baseline", "+ HRED, sum only"]
    heads += ["+ HRED", "95% interval", "p by user"]
    rows = []
    for title, part, cases in (
        ("all users", scenario, scenario["cases"]["test"]),
        ("the full users", apart, apart["cases"]),
    ):
        gains, mrr = part["gains"], part["mrr"]
        chosen = gains["baseline+hred over baseline"]
        cells = [title, f"{cases:,}"]
        cells += [mrr_text(mrr[system]) for system in ("adj", "hred:lift", "baseline")]
        cells += [gain(gains["baseline+hred:sum over baseline"]), gain(chosen)]
        rows.append([*cells, interval(chosen), p_value(chosen["p_by_user"])])
    return table(heads, rows)


def positions() -> str:
    """Rankers that learn from last queries against those that learn from every next query."""
    heads = ["visitors", "scenario", "taught by", "cases that teach", "test cases", "Baseline"]
    heads += ["+ HRED, sum only", "+ HRED", "95% interval", "p by user"]
    rows = []
    for visitors, part, studies in (
        ("known", "scenarios", ("aol_held_out_last", "aol_held_out_every")),
        ("held out", HELD_OUT, ("aol_held_out_last", "aol_held_out_every")),
        ("new (folds)", "new_visitors", ("aol", "aol_every")),
    ):
        for study in studies:
            taught = "every query" if study.endswith("every") else "the last query"
            for name, scenario in read(study)["scenarios" if part == HELD_OUT else part].items():
                if "mrr" in scenario:
                    result = scenario[HELD_OUT] if part == HELD_OUT else scenario
                    cells = [f"{scenario['cases']['training']:,}", *_position_cells(result)]
                    rows.append([visitors, TITLES[name], taught, *cells])
    return table(heads, rows)


def _position_cells(result: Document) -> list[str]:
    gains = result["gains"]
    chosen = gains["baseline+hred over baseline"]
    cells = [f"{number_of_cases(result):,}", mrr_text(result["mrr"]["baseline"])]
    cells.append(gain(gains["baseline+hred:sum over baseline"]))
    return [*cells, gain(chosen), interval(chosen), p_value(chosen["p_by_user"])]
