"""The scenarios of a report as LaTeX tables, with marks of significance."""

from pathlib import Path

from nextquery.artifacts import write_text
from nextquery.evaluation.comparison import Comparison
from nextquery.evaluation.ranked_system import RankedSystem, label
from nextquery.evaluation.results import ExperimentResults, with_enough_cases
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.scenarios import SCENARIOS

FOLDER = "tables"
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def write_tables(out: Path, results: ExperimentResults) -> None:
    """Write `tables/SCENARIO.tex` for every scenario with results."""
    (out / FOLDER).mkdir(exist_ok=True)
    for prefix, scenarios in (("", results.scenarios), ("new_", results.new_visitors)):
        for name, result in with_enough_cases(scenarios).items():
            visitors = ", new visitors" if prefix else ""
            title = f"{SCENARIOS[name].title}{visitors}"
            write_text(out / FOLDER / f"{prefix}{name}.tex", scenario_table(title, result))


def scenario_table(title: str, result: ScenarioResult) -> str:
    """A table for `\\usepackage{booktabs}`: the MRR of every system and its gains."""
    rows = [_row(system, result) for system in result.systems]
    users = f" of {result.users:,} users" if result.users else ""
    caption = (
        f"{escape(title)}: MRR on {result.cases['test']:,} test cases{users} (95\\% bootstrap "
        "interval over users) and relative gains. $^{**}$: $p < .01$, $^{*}$: $p < .05$, paired "
        "$t$-test by user, corrected after Holm."
    )
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{caption}}}",
            r"\begin{tabular}{lccrr}",
            r"\toprule",
            r"System & MRR & 95\% interval & over ADJ & over Baseline \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _row(system: str, result: ScenarioResult) -> str:
    quality = result.systems[system]
    low, high = quality.interval
    parsed = RankedSystem.parse(system)
    base = parsed.base if parsed.base and parsed.model else "baseline"
    cells = [
        escape(label(system)),
        f"{quality.mrr:.4f}",
        f"[{low:.3f}, {high:.3f}]",
        gain(result.comparison(system, "adj")),
        gain(result.comparison(system, base)),
    ]
    return " & ".join(cells) + r" \\"


def gain(comparison: Comparison | None) -> str:
    """A relative gain with its mark.

    >>> gain(Comparison("a", "b", 0.033, 0.001, 0.02, 0.01, 0.03, p_holm=0.02))
    '$+3.3\\\\%^{*}$'
    """
    if comparison is None:
        return "--"
    p = 1.0 if comparison.p_holm is None else comparison.p_holm
    mark = "^{**}" if p < 0.01 else "^{*}" if p < 0.05 else ""
    return f"${comparison.relative * 100:+.1f}\\%{mark}$"


def escape(text: str) -> str:
    """A text without characters that LaTeX reads as commands.

    >>> escape("A_B & C")
    'A\\\\_B \\\\& C'
    """
    return "".join(_SPECIAL.get(character, character) for character in text)
