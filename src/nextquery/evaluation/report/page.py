"""The page of an experiment report and its LaTeX tables, made from the results."""

from collections.abc import Mapping
from pathlib import Path

from nextquery.artifacts import write_text
from nextquery.evaluation.comparison import Comparison, RankedSystem, label
from nextquery.evaluation.paper import LONG_SESSION_GAINS, PAPER
from nextquery.evaluation.probes.table import PROBES
from nextquery.evaluation.report import html, plots, tables
from nextquery.evaluation.report.html import PLOTS
from nextquery.evaluation.report.sections import ngrams, what_to_serve
from nextquery.evaluation.results import ExperimentResults, with_enough_cases
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.scenarios import SCENARIOS

NEW = "New visitors, "


def write_report(out: Path, results: ExperimentResults) -> None:
    """Draw every plot and write `index.html` next to `results.json`."""
    (out / PLOTS).mkdir(exist_ok=True)
    parts = {
        "serving": ("What to serve", what_to_serve(results)),
        "summary": ("What was found", _summary(results)),
        "scenarios": ("Ranking the next query", _scenarios(out, results)),
        "visitors": ("New visitors", _new_visitors(out, results)),
        "curve": ("How much log it takes", _learning_curve(out, results)),
        "lengths": ("Session and context length", _lengths(out, results)),
        **{
            probe.section.anchor: (probe.section.title, probe.section.write(out, results))
            for probe in PROBES
            if probe.section
        },
        "features": ("Features and rankers", _features(out, results)),
        "run": ("Data, training and settings", _run(results)),
    }
    shown = {anchor: part for anchor, part in parts.items() if part[1]}
    models = ", ".join(tables.model_name(results, model) for model in results.systems.models)
    test = results.data.counts.get("sessions", {}).get("test", 0)
    text = html.document(
        "Context-aware query suggestion: the experiments",
        f"{models} on a log with {test:,} test sessions, as in section 4 of "
        "Sordoni et al., CIKM 2015. The paper's own results are shown next to ours.",
        [(anchor, title) for anchor, (title, _) in shown.items()],
        [html.section(anchor, title, body) for anchor, (title, body) in shown.items()],
    )
    write_text(out / "index.html", text)
    write_tables(out, results)


def _summary(results: ExperimentResults) -> str:
    models = {model: tables.model_name(results, model) for model in results.systems.models}
    lines = [
        f"{visitors}{finding}"
        for visitors, scenarios in (("", results.scenarios), (NEW, results.new_visitors))
        for name, scenario in scenarios.items()
        for finding in _findings(name, scenario, models)
    ]
    comparable = [
        "Comparable with the paper: the rules for candidates, noise and the long tail, the "
        "features, the measure, the test of significance, and so the relative gains.",
        "Not comparable: absolute MRRs. They depend on the log's size, on how many followers an "
        "anchor needs, and on how its queries were sampled and cleaned.",
        "One person's cases are alike. So intervals are 95% bootstrap intervals over users, p is "
        "of the paired t-test over users (two-sided, each user's sum of differences), corrected by "
        "Holm's method for all comparisons of the scenario, and significant means that it is below "
        ".01. The paper's test, over cases and not corrected, is given as well.",
        "Each case's reciprocal rank is the mean over the rankers' seeds; after ± is how far other "
        "seeds would move the mean (its standard error).",
    ]
    return html.bullets(lines) + html.heading("What is comparable") + html.bullets(comparable)


def _findings(name: str, scenario: ScenarioResult, models: Mapping[str, str]) -> list[str]:
    """One sentence per model, with its name, on what its score adds to the Baseline Ranker."""
    title = SCENARIOS[name].title
    if scenario.too_few:
        return [f"{title}: too few cases for any result ({scenario.too_few})."]
    sentences = []
    for model, written in models.items():
        paper = scenario.comparison(RankedSystem("baseline", model, "sum").key, "baseline")
        ours = scenario.comparison(RankedSystem("baseline", model).key, "baseline")
        if paper is None or ours is None:
            continue
        sentence = (
            f"{title}: {written}'s log-likelihood as one more feature, as in the paper, "
            f"changes the Baseline Ranker's MRR by {_change(paper)}; in the forms that validation "
            f"chose, by {_change(ours)}; {scenario.cases['test']:,} test cases."
        )
        if name in PAPER:
            sentence += f" The paper's gain is {PAPER[name].gain_text('baseline')}."
        sentences.append(sentence)
    return sentences


def _change(comparison: Comparison) -> str:
    verdict = "significant" if comparison.significant else "not significant"
    return f"{comparison.relative:+.1%} ({tables.p_values(comparison)}, {verdict})"


def _new_visitors(out: Path, results: ExperimentResults) -> str:
    """The scenarios as a site sees them that has never met most of its visitors."""
    if not results.new_visitors:
        return ""
    seen = [model for model in results.systems.models if model not in results.fold_models]
    text = (
        "The same sessions as if each user came for the first time: candidates, followers, "
        "frequencies and QVMM leave out everything that the case's own user did in the background, "
        "for the rankers' training as for the test."
    )
    if results.settings.new_visitor_cases == "all":
        text += " All sessions of the log are tested, the background's included."
    if seen:
        names = ", ".join(map(label, seen))
        text += f" {names} was trained with these users' own background sessions."
    message = "The paper's systems with new visitors: dots are MRRs, bars their 95% intervals."
    alt = "MRR by scenario and system, new visitors"
    file = f"{PLOTS}/new_visitors.svg"
    shown = _shown_scenarios(out, results, results.new_visitors, (file, message, alt))
    return html.paragraph(text) + shown


def _shown_scenarios(
    out: Path,
    results: ExperimentResults,
    scenarios: Mapping[str, ScenarioResult],
    caption: tuple[str, str, str],
) -> str:
    """The plot of all scenarios, with its file, message and alternative text, and their tables."""
    parts = []
    if with_enough_cases(scenarios):
        plots.draw_scenarios(results, scenarios, out / caption[0])
        parts.append(html.plot(*caption))
    for name, scenario in scenarios.items():
        parts.append(html.heading(SCENARIOS[name].title))
        parts.append(tables.scenario(name, scenario, results))
        parts.append(tables.other_systems(scenario, results))
    return "".join(parts)


def _learning_curve(out: Path, results: ExperimentResults) -> str:
    curve, models = results.learning_curve, results.systems.models
    if curve is None:
        return ""
    file = f"{PLOTS}/learning_curve.svg"
    plots.draw_learning_curve(curve, models, out / file)
    message = (
        "Solid: fitted anew at every size, to nested shares of the background's users. Dashed: a "
        "model that was given as it is."
    )
    return "".join(
        [
            html.bullets(tables.curve_sentences(curve, models)),
            html.plot(file, message, "MRR, coverage and perplexity by size of the background"),
            tables.curve_table(curve, models),
        ]
    )


def _scenarios(out: Path, results: ExperimentResults) -> str:
    if not results.scenarios:
        return ""
    message = "The paper's systems in each scenario: dots are MRRs, bars their 95% intervals."
    message += tables.copying_note(results)
    caption = f"{PLOTS}/scenarios.svg", message, "MRR by scenario and system"
    plots.draw_length_shares(results, out / PLOTS / "length_shares.svg")
    return _shown_scenarios(out, results, results.scenarios, caption) + html.plot(
        f"{PLOTS}/length_shares.svg",
        "How long the test sessions of each scenario are (the paper's Figure 4).",
        "Shares of short, medium and long sessions",
    )


def _lengths(out: Path, results: ExperimentResults) -> str:
    if not results.reported:
        return ""
    plots.draw_session_lengths(results, out / PLOTS / "session_lengths.svg")
    parts = [
        html.plot(
            f"{PLOTS}/session_lengths.svg",
            "MRR in short (2 queries), medium (3-4) and long (5 or more) sessions, with the number "
            "of cases (Figure 5). In the paper HRED gains most in long sessions: "
            f"{LONG_SESSION_GAINS['baseline']:+.0%} over the Baseline Ranker.",
            "MRR by session length",
        ),
        tables.length_gains(results),
    ]
    apart = tables.user_groups(results)
    parts += [html.heading("Users apart"), apart] if apart else []
    clicks = tables.last_clicks(results)
    if clicks:
        parts += [
            html.heading("What satisfies"),
            html.paragraph(
                "Sessions whose last query was clicked against those where it was not. A system "
                "that prefers useful queries should gain among the first and may lose among the "
                "second; gains are over the same model without usefulness."
            ),
            clicks,
        ]
    if plots.draw_context_lengths(results, out / PLOTS / "context_lengths.svg"):
        parts.append(
            html.plot(
                f"{PLOTS}/context_lengths.svg",
                "Long sessions, the model seeing only the last queries (Figure 6): a model that "
                "uses the context rises to the right.",
                "MRR by context length",
            )
        )
    return "".join(parts)


def _features(out: Path, results: ExperimentResults) -> str:
    if not results.reported:
        return ""
    plots.draw_importances(results, out / PLOTS / "importances.svg")
    model = label(results.systems.models[0])
    return "".join(
        [
            html.plot(
                f"{PLOTS}/importances.svg",
                f"What the ranker with {model} looks at most (mean over its seeds).",
                "Feature importances",
            ),
            tables.features(results),
            html.heading("Which form of a model's score"),
            tables.forms(results),
        ]
    )


def _run(results: ExperimentResults) -> str:
    links = html.bullets(
        [
            "results.json has every number of this page, and more.",
            "trec/ has runs and qrels of the test cases for other tools; a learnt system's run "
            "orders by the mean score of its seeds, and run_mrr in results.json is its MRR. "
            "SCENARIO.ranks.parquet has the reciprocal rank of every case by system and seed.",
            "tables/ has the scenarios as LaTeX tables.",
        ]
    )
    return "".join(
        [
            tables.data(results),
            tables.training(results),
            ngrams(results),
            tables.settings(results),
            links,
        ]
    )


LATEX = "tables"
"""The folder of the LaTeX tables within the report."""
_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def write_tables(out: Path, results: ExperimentResults) -> None:
    """Write `tables/SCENARIO.tex` for every scenario with results."""
    (out / LATEX).mkdir(exist_ok=True)
    for prefix, scenarios in (("", results.scenarios), ("new_", results.new_visitors)):
        for name, result in with_enough_cases(scenarios).items():
            visitors = ", new visitors" if prefix else ""
            title = f"{SCENARIOS[name].title}{visitors}"
            write_text(out / LATEX / f"{prefix}{name}.tex", scenario_table(title, result))


def scenario_table(title: str, result: ScenarioResult) -> str:
    """A table for `\\usepackage{booktabs}`: the MRR of every system and its gains."""
    rows = [_row(system, result) for system in result.systems]
    users = f" of {result.users:,} users" if result.users else ""
    caption = (
        f"{escape_latex(title)}: MRR on {result.cases['test']:,} test cases{users} (95\\% "
        "bootstrap interval over users) and relative gains. $^{**}$: $p < .01$, "
        "$^{*}$: $p < .05$, paired $t$-test by user, corrected after Holm."
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
    cells = [
        escape_latex(label(system)),
        f"{quality.mrr:.4f}",
        f"[{low:.3f}, {high:.3f}]",
        gain(result.comparison(system, "adj")),
        gain(result.comparison(system, tables.baseline_of(system))),
    ]
    return " & ".join(cells) + r" \\"


def gain(comparison: Comparison | None) -> str:
    """A relative gain with its mark.

    >>> limits = {"difference_low_by_user": 0.01, "difference_high_by_user": 0.03}
    >>> tests = {"p_by_user": 0.01, "p_holm": 0.02, "significant": False}
    >>> gain(Comparison("a", "b", 0.033, 0.001, 0.02, 0.01, 0.03, **limits, **tests))
    '$+3.3\\\\%^{*}$'
    """
    if comparison is None:
        return "--"
    mark = "^{**}" if comparison.p_holm < 0.01 else "^{*}" if comparison.p_holm < 0.05 else ""
    return f"${comparison.relative * 100:+.1f}\\%{mark}$"


def escape_latex(text: str) -> str:
    """A text without characters that LaTeX reads as commands.

    >>> escape_latex("A_B & C")
    'A\\\\_B \\\\& C'
    """
    return "".join(_LATEX_SPECIAL.get(character, character) for character in text)
