"""The page of an experiment report, made from its results."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nextquery.artifacts import write_text
from nextquery.evaluation.comparison import Comparison
from nextquery.evaluation.completion import CompletionQuality, SystemCompletions
from nextquery.evaluation.paper import FIGURE_7, LONG_SESSION_GAINS, PAPER, TABLE_1
from nextquery.evaluation.probes.gates import GateComparison
from nextquery.evaluation.probes.ngrams import NgramPerplexity
from nextquery.evaluation.ranked_system import RankedSystem, label
from nextquery.evaluation.report import html, plots, tables
from nextquery.evaluation.report.html import PLOTS, Cell, Row, heading, paragraph, plot, table
from nextquery.evaluation.report.latex import write_tables
from nextquery.evaluation.report.plots import colour, draw_gates, svg_plot
from nextquery.evaluation.report.tables import interval, p_value
from nextquery.evaluation.results import ExperimentResults, with_enough_cases
from nextquery.evaluation.scenario_run import ScenarioResult
from nextquery.evaluation.scenarios import SCENARIOS


def section(out: Path, results: ExperimentResults) -> str:
    """Half-typed queries, which the paper's conclusion names as a next step."""
    if results.completion is None or not results.completion.systems:
        return ""
    file = f"{PLOTS}/completion.svg"
    draw_completion(results, out / file)
    text = (
        "The query that the user typed next, typed again character by character: is it among ten "
        "completions, and what share of its characters would be saved by the first "
        f"{results.completion.shown}? Popularity is the usual baseline, the most popular "
        "completion. The next word is the one that the first completion goes on with."
    )
    message = "Solid: completed in the session. Dotted: without it."
    shown = plot(file, message, "MRR and characters saved by typed characters")
    return paragraph(text) + shown + completion(results)


def draw_completion(results: ExperimentResults, path: Path) -> None:
    """MRR and characters saved by the number of typed characters; dashed without the session."""
    assert results.completion is not None
    with svg_plot(path, 9.6, 3.4, 2) as (quality, saved):
        for name, found in results.completion.systems.items():
            shade = colour(name, results.systems.models)
            for view, style in ((found.with_session, "-"), (found.without_session, ":")):
                lengths = [each.characters for each in view.by_length]
                text = label(name) if style == "-" else None
                mrr = [each.mrr for each in view.by_length]
                quality.plot(lengths, mrr, style, color=shade, marker="o", ms=3, label=text)
                shares = [each.saved for each in view.by_length]
                saved.plot(lengths, shares, style, color=shade, marker="o", ms=3)
        for axes, title in ((quality, "MRR of ten completions"), (saved, "Characters saved")):
            axes.set_title(title)
            axes.set_xlabel("characters typed")
            axes.set_ylim(bottom=0)
        saved.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        quality.legend(frameon=False, fontsize=8)


def completion(results: ExperimentResults) -> str:
    """Every system with the session and without it, then by the number of typed characters."""
    found = results.completion
    assert found is not None
    heads = ["System", "", "MRR", "p, session", "characters saved", "next word", "of five"]
    rows: list[Row] = []
    for name, system in found.systems.items():
        for view, each in _views(system).items():
            first = each is system.with_session
            rows.append(
                [
                    label(name) if first else "",
                    view,
                    f"{each.mrr:.3f}",
                    p_value(system.p) if first else "",
                    f"{each.saved:.1%}",
                    f"{each.next_word.first:.1%}",
                    f"{each.next_word.of_five:.1%}",
                ]
            )
    words = max(s.with_session.next_word.cases for s in found.systems.values())
    caption = f"{found.queries:,} queries, {words:,} next words"
    return table(heads, rows, caption) + _by_length(results)


def _views(system: SystemCompletions) -> dict[str, CompletionQuality]:
    return {"with the session": system.with_session, "without it": system.without_session}


def _by_length(results: ExperimentResults) -> str:
    found = results.completion
    assert found is not None
    first = next(iter(found.systems.values())).with_session.by_length
    heads: list[Cell | str] = [
        "MRR after characters",
        "",
        *(Cell(str(each.characters), "", f"{each.cases:,} queries") for each in first),
    ]
    rows: list[Row] = []
    for name, system in found.systems.items():
        for view, each_view in _views(system).items():
            cells = (
                Cell(f"{each.mrr:.3f}", "", interval(each.mrr_low, each.mrr_high))
                for each in each_view.by_length
            )
            rows.append([label(name), view, *cells])
    return table(heads, rows)


def ngrams(results: ExperimentResults) -> str:
    """Each model's validation perplexity beside those of n-gram models in its vocabulary."""
    rows: list[Row] = []
    for model, found in results.ngrams.items():
        facts = results.training.get(model)
        own = (facts.training or {}).get("validation_perplexity") if facts else None
        rows.append(
            [label(model), f"{own:.1f}" if own else "–", *(_ngram(found, n) for n in (1, 2, 3))]
        )
    if not rows:
        return ""
    heads = ["Validation perplexity per word", "the model", "unigrams", "bigrams", "trigrams"]
    note = (
        "Interpolated Kneser-Ney models of single queries in each model's vocabulary, fitted to "
        "the background: what is predicted without any session."
    )
    return table(heads, rows) + paragraph(note, "note")


def _ngram(found: Sequence[NgramPerplexity], order: int) -> str:
    return next((f"{each.perplexity:.1f}" for each in found if each.order == order), "–")


def paper_suggestions(results: ExperimentResults) -> str:
    """Table 1 of the paper: its two contexts, its suggestions, and those of our models."""
    examples = {name: found for name, found in results.paper_examples.items() if found.table_1}
    if not examples:
        return ""
    heads: list[Cell | str] = [
        "Context",
        Cell("the paper", "paper text"),
        *(Cell(label(n), "text") for n in examples),
    ]
    rows: list[Row] = []
    for place, (context, published) in enumerate(TABLE_1.items()):
        cells = [Cell("; ".join(published), "paper text")]
        for found in examples.values():
            ours = found.table_1[place]
            missing = ", ".join(ours.missing_words)
            text = f"not asked: no {missing}" if missing else "; ".join(ours.suggestions) or "–"
            cells.append(Cell(text, "none" if missing else "text"))
        rows.append([Cell(" → ".join(context), "text"), *cells])
    return heading("The paper's own two contexts") + table(heads, rows)


def figure_7(out: Path, results: ExperimentResults) -> str:
    """The gates of the paper's own example, of every model that knows its words."""
    parts, lacking = [], []
    for model, found in results.paper_examples.items():
        if found.figure_7 is None:
            lacking.append(label(model))
            continue
        file = f"{PLOTS}/figure_7_{model}.svg"
        draw_gates(found.figure_7, out / file)
        message = f"{label(model)}: gates of the paper's own example."
        parts.append(plot(file, f"{message} (Figure 7)", message))
    if lacking:
        example = " → ".join(FIGURE_7)
        text = f"Not drawn for {', '.join(lacking)}: a word of {example} is unknown there."
        parts.append(paragraph(text, "note"))
    return "".join(parts)


NEW = "New visitors, "


def write_report(out: Path, results: ExperimentResults) -> None:
    """Draw every plot and write `index.html` beside `results.json`."""
    (out / PLOTS).mkdir(exist_ok=True)
    parts = {
        "summary": ("What was found", _summary(results)),
        "scenarios": ("Ranking the next query", _scenarios(out, results)),
        "visitors": ("New visitors", _new_visitors(out, results)),
        "curve": ("How much log it takes", _learning_curve(out, results)),
        "lengths": ("Session and context length", _lengths(out, results)),
        "generation": ("Suggestions without candidates", _generation(out, results)),
        "completion": ("Completion and the next word", section(out, results)),
        "gates": ("Update gates and noise", _gates(out, results)),
        "intent": ("The hidden intent of a made-up log", _hidden_intent(results)),
        "boundaries": ("Session boundaries", _boundaries(out, results)),
        "vectors": ("Words and queries in space", _vectors(out, results)),
        "features": ("Features and rankers", _features(out, results)),
        "run": ("Data, training and settings", _run(results)),
    }
    shown = {anchor: part for anchor, part in parts.items() if part[1]}
    models = ", ".join(tables.model_name(results, model) for model in results.systems.models)
    test = results.data.counts.get("sessions", {}).get("test", 0)
    text = html.document(
        "Context-aware query suggestion: the experiments",
        f"{models} on a log with {test:,} test sessions, as in section 4 of "
        "Sordoni et al., CIKM 2015. The paper's own results stand beside ours.",
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
        for name, found in scenarios.items()
        for finding in _findings(name, found, models)
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


def _findings(name: str, found: ScenarioResult, models: Mapping[str, str]) -> list[str]:
    """One sentence per model, with its name, on what its score adds to the Baseline Ranker."""
    title = SCENARIOS[name].title
    if found.too_few:
        return [f"{title}: too few cases for any result ({found.too_few})."]
    sentences = []
    for model, written in models.items():
        paper = found.comparison(RankedSystem("baseline", model, "sum").key, "baseline")
        ours = found.comparison(RankedSystem("baseline", model).key, "baseline")
        if paper is None or ours is None:
            continue
        sentence = (
            f"{title}: {written}'s log-likelihood as one more feature, as in the paper, "
            f"changes the Baseline Ranker's MRR by {_change(paper)}; in the forms that validation "
            f"chose, by {_change(ours)}; {found.cases['test']:,} test cases."
        )
        if name in PAPER:
            sentence += f" The paper's gain is {PAPER[name].gain_text('baseline')}."
        sentences.append(sentence)
    return sentences


def _change(each: Comparison) -> str:
    verdict = "significant" if each.significant else "not significant"
    return f"{each.relative:+.1%} ({tables.p_values(each)}, {verdict})"


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
    parts = [html.paragraph(text)]
    if with_enough_cases(results.new_visitors):
        file = f"{PLOTS}/new_visitors.svg"
        plots.draw_scenarios(results, results.new_visitors, out / file)
        message = "The paper's systems with new visitors: dots are MRRs, bars their 95% intervals."
        parts.append(html.plot(file, message, "MRR by scenario and system, new visitors"))
    for name, found in results.new_visitors.items():
        parts.append(html.heading(SCENARIOS[name].title))
        parts.append(tables.scenario(name, found, results))
        parts.append(tables.other_systems(found, results))
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
            html.bullets(plots.curve_sentences(curve, models)),
            html.plot(file, message, "MRR, coverage and perplexity by size of the background"),
            plots.curve_table(curve, models),
        ]
    )


def _scenarios(out: Path, results: ExperimentResults) -> str:
    if not results.scenarios:
        return ""
    parts = []
    if results.reported:
        plots.draw_scenarios(results, results.scenarios, out / PLOTS / "scenarios.svg")
        message = "The paper's systems in each scenario: dots are MRRs, bars their 95% intervals."
        message += tables.copying_note(results)
        parts.append(html.plot(f"{PLOTS}/scenarios.svg", message, "MRR by scenario and system"))
    for name, found in results.scenarios.items():
        parts.append(html.heading(SCENARIOS[name].title))
        parts.append(tables.scenario(name, found, results))
        parts.append(tables.other_systems(found, results))
    plots.draw_length_shares(results, out / PLOTS / "length_shares.svg")
    parts.append(
        html.plot(
            f"{PLOTS}/length_shares.svg",
            "How long the test sessions of each scenario are (the paper's Figure 4).",
            "Shares of short, medium and long sessions",
        )
    )
    return "".join(parts)


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


def _generation(out: Path, results: ExperimentResults) -> str:
    if not results.generation.systems:
        return ""
    plots.draw_generation(results, out / PLOTS / "generation.svg")
    return "".join(
        [
            html.paragraph(
                "Every system suggests by itself for the same sample of test contexts, behind its "
                "guards. The paper leaves this to a user study and to future work."
            ),
            html.plot(
                f"{PLOTS}/generation.svg",
                "How often the query that the user typed next is among the first 20 suggestions "
                "(light), the first 5, and the first alone (dark).",
                "Hit rates of the suggestions",
            ),
            tables.generation(results),
            html.heading("Sample suggestions (the paper's Table 1)"),
            tables.samples(results),
            paper_suggestions(results),
        ]
    )


def _gates(out: Path, results: ExperimentResults) -> str:
    if not results.gates:
        return ""
    parts = [tables.gates(results)]
    if any(isinstance(each, GateComparison) for each in results.gates.values()):
        plots.draw_gate_means(results, out / PLOTS / "gate_means.svg")
        message = (
            "Mean update gate of a query of the user and of a noisy query inserted at the same "
            "place. The paper's claim is that noise updates less."
        )
        file = f"{PLOTS}/gate_means.svg"
        parts.append(html.plot(file, message, "Mean gates of own queries and of noise"))
    for model, each in results.gates.items():
        if each.example:
            file = f"{PLOTS}/gates_{model}.svg"
            plots.draw_gates(each.example, out / file)
            message = f"{label(model)}: gates of one context with a noisy query at its end."
            parts.append(html.plot(file, f"{message} (Figure 7)", message))
    return "".join(parts) + figure_7(out, results)


def _hidden_intent(results: ExperimentResults) -> str:
    if not results.hidden_intent:
        return ""
    return tables.hidden_intent(results)


def _boundaries(out: Path, results: ExperimentResults) -> str:
    if not results.boundaries.systems:
        return ""
    plots.draw_boundaries(results, out / PLOTS / "boundaries.svg")
    labelled = results.settings.boundary_labels
    truth = (
        f"the labels of {labelled}"
        if labelled
        else "the 30-minute cut, which minutes find almost by definition"
    )
    return "".join(
        [
            html.paragraph(
                "A user's queries as one stream: where does a session end? Thresholds are chosen "
                f"on other streams; the truth is {truth}."
            ),
            html.plot(
                f"{PLOTS}/boundaries.svg",
                "What the update gates know of boundaries (red), beside text and time (blue).",
                "F1 of session boundaries",
            ),
            tables.boundaries(results),
        ]
    )


def _vectors(out: Path, results: ExperimentResults) -> str:
    parts = []
    for model, maps in results.projections.items():
        for kind, points in (("words", maps.words), ("queries", maps.queries)):
            if points:
                file = f"{PLOTS}/{kind}_{model}.svg"
                plots.draw_projection(points, out / file)
                message = f"{label(model)}: the most frequent {kind}, near what they resemble"
                parts.append(html.plot(file, f"{message} (t-SNE; Figure 1).", message))
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
