"""The sections of the report: which system to serve on this log, and one per probe.

The section of a probe is empty without results.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nextquery.evaluation.comparison import label
from nextquery.evaluation.completion import (
    CompletionQuality,
    CompletionResult,
    SystemCompletions,
)
from nextquery.evaluation.lists import AgainstTrivial, GenerationResult, SystemLists
from nextquery.evaluation.paper import FIGURE_7, TABLE_1
from nextquery.evaluation.probes.gates import GateComparison, GateExample
from nextquery.evaluation.report import html, plots, tables
from nextquery.evaluation.report.html import PLOTS, Cell, Row, heading, paragraph, plot, table
from nextquery.evaluation.report.plots import colour, svg_plot
from nextquery.evaluation.report.tables import interval, p_value
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.returning import ReturningResult
from nextquery.evaluation.systems import COUNT_MODELS, TRIVIAL

CLOSE = 0.95
"""A system with this share of the best MRR is as good, and the cheaper one is recommended."""


def what_to_serve(results: ExperimentResults) -> str:
    """The systems on this log, the comparison with trivial rules, and one command."""
    if not results.generation.contexts:
        return ""
    parts = [html.bullets(_findings(results))]
    parts.append(_table(results.generation, results.list_times, "Visitors of the test sessions"))
    if results.unseen_generation is not None and results.unseen_generation.systems:
        title = "Visitors whom the background does not know"
        parts.append(_table(results.unseen_generation, results.list_times, title))
    note = (
        "Flawed: fewer than K users typed it, and it begins or ends with a word that hardly ever "
        "does, has a word twice, is one word of the session, or has words in an unusual order. "
        "Informational: the next query is not one of the log's 100 most frequent. Times are of one "
        "list of five on the machine that ran the experiment."
    )
    return "".join([*parts, html.paragraph(note, "note")])


def _findings(results: ExperimentResults) -> list[str]:
    served = recommended(results)
    sentences = [f"Recommended: {label(served)}. {command(served)}."]
    groups = {"test sessions": results.generation}
    if results.unseen_generation is not None:
        groups["visitors whom the background does not know"] = results.unseen_generation
    for name, generation in groups.items():
        for against in generation.against_trivial:
            if against.system in results.systems.models:
                sentences.append(_verdict(against, name))
    if any(
        not against.better
        for against in results.generation.against_trivial
        if against.system in results.systems.models
    ):
        sentences.append(_expectation(results))
    return sentences


def _verdict(against: AgainstTrivial, group: str) -> str:
    system, rule = label(against.system), label(against.rule)
    verdict = "is better" if against.better else "is not shown to be better"
    return (
        f"On {group} {system} {verdict} than the best trivial rule ({rule}): "
        f"MRR {against.difference:+.4f}, p {p_value(against.p)} by user."
    )


def _expectation(results: ExperimentResults) -> str:
    sessions = results.data.counts.get("sessions", {}).get("background", 0)
    return (
        f"This log has {sessions:,} background sessions. On AOL with 42,775 HRED and a blend of it "
        "with adjacency were better than every trivial rule on test sessions (MRR +0.011 and "
        "+0.012, p .009 and .004 by user); with 1,010 sessions HRED did not differ from dropping "
        "words (+0.0006, p .83). "
        "That is one log and two sizes: compare again when yours has grown."
    )


def recommended(results: ExperimentResults) -> str:
    """The cheapest of the systems that are about as good as the best, by MRR on the test sessions.

    A trivial rule is recommended only as what it is: the popularity model, which can be served.
    """
    lists = results.generation.systems
    servable = {
        name: system.all.mrr
        for name, system in lists.items()
        if system.all is not None and (name not in TRIVIAL or name in COUNT_MODELS)
    }
    best = max(servable.values())
    close = [name for name, mrr in servable.items() if mrr >= CLOSE * best]
    return min(close, key=lambda name: (results.list_times.get(name, 0.0), name))


def command(system: str) -> str:
    """The command that serves a system."""
    if system in COUNT_MODELS:
        kind = COUNT_MODELS[system]
        folder = f"models/{kind}"
        return f"nextquery fit DATA --kind {kind} --out {folder} && nextquery serve {folder}"
    return f"nextquery serve {system.upper()}, the model folder of {label(system)}"


def _table(generation: GenerationResult, times: Mapping[str, float], title: str) -> str:
    heads = [
        "System", "hit at 5", "MRR", "informational MRR", "coverage", "places of 5", "flawed",
        "only shortened", "100 most frequent", "ms per list", "against the best trivial rule",
    ]  # fmt: skip
    against = {comparison.system: comparison for comparison in generation.against_trivial}
    rows = [
        _row(name, system, times.get(name), against.get(name))
        for name, system in generation.systems.items()
    ]
    return html.table(heads, rows, f"{title}: {generation.contexts:,} contexts")


def _row(
    name: str, system: SystemLists, milliseconds: float | None, against: AgainstTrivial | None
) -> Row:
    quality, text = system.all, system.text
    if quality is None or text is None:
        return [label(name), *["–"] * 10]
    informational = quality.informational_mrr
    return [
        label(name),
        f"{quality.hit_5:.3f}",
        f"{quality.mrr:.4f}",
        "–" if informational is None else f"{informational:.4f}",
        f"{quality.coverage:.1%}",
        f"{text.places:.1f}",
        f"{text.junk:.1%}",
        f"{text.shortened:.1%}",
        f"{text.frequent:.1%}",
        "–" if milliseconds is None else f"{milliseconds:.1f}",
        "–" if against is None else f"{against.difference:+.4f} (p {p_value(against.p)})",
    ]


def generation(out: Path, results: ExperimentResults) -> str:
    """The systems' own lists, with samples and the paper's two contexts."""
    if not results.generation.contexts:
        return ""
    plots.draw_generation(results, out / PLOTS / "generation.svg")
    return "".join(
        [
            html.paragraph(
                "Every system suggests by itself for the same sample of test contexts, under its "
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
            _paper_suggestions(results),
        ]
    )


def _paper_suggestions(results: ExperimentResults) -> str:
    """Table 1 of the paper: its two contexts, its suggestions, and those of our models."""
    examples = results.paper_examples
    if not examples:
        return ""
    heads: list[Cell | str] = [
        "Context",
        Cell("the paper", "paper text"),
        *(Cell(label(n), "text") for n in examples),
    ]
    rows: list[Row] = []
    for index, (context, published) in enumerate(TABLE_1.items()):
        cells = [Cell("; ".join(published), "paper text")]
        for example in examples.values():
            ours = example.table_1[index]
            missing = ", ".join(ours.missing_words)
            text = f"not asked: no {missing}" if missing else "; ".join(ours.suggestions) or "–"
            cells.append(Cell(text, "none" if missing else "text"))
        rows.append([Cell(" → ".join(context), "text"), *cells])
    return heading("The paper's own two contexts") + table(heads, rows)


def completion(out: Path, results: ExperimentResults) -> str:
    """Completion of half-typed queries, which the paper's conclusion names as a next step."""
    result = results.completion
    if result is None or not result.systems:
        return ""
    file = f"{PLOTS}/completion.svg"
    _draw_completion(result, results.systems.models, out / file)
    text = (
        "The query that the user typed next, typed again character by character: is it among ten "
        "completions, and what share of its characters would be saved by the first "
        f"{result.shown}? Popularity is the usual baseline, the most popular "
        "completion. The next word is the next word of the first completion."
    )
    message = "Solid: completed in the session. Dotted: without it."
    shown = plot(file, message, "MRR and characters saved by typed characters")
    return paragraph(text) + shown + _completion_table(result) + _by_length(result)


def _draw_completion(result: CompletionResult, models: Sequence[str], path: Path) -> None:
    """MRR and characters saved by the number of typed characters; dotted without the session."""
    with svg_plot(path, 9.6, 3.4, 2) as (quality, saved):
        for name, system in result.systems.items():
            shade = colour(name, models)
            for view, style in ((system.with_session, "-"), (system.without_session, ":")):
                lengths = [point.characters for point in view.by_length]
                text = label(name) if style == "-" else None
                mrr = [point.mrr for point in view.by_length]
                quality.plot(lengths, mrr, style, color=shade, marker="o", ms=3, label=text)
                shares = [point.saved for point in view.by_length]
                saved.plot(lengths, shares, style, color=shade, marker="o", ms=3)
        for axes, title in ((quality, "MRR of ten completions"), (saved, "Characters saved")):
            axes.set_title(title)
            axes.set_xlabel("characters typed")
            axes.set_ylim(bottom=0)
        saved.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        quality.legend(frameon=False, fontsize=8)


def _completion_table(result: CompletionResult) -> str:
    """Every system with the session and without it."""
    heads = ["System", "", "MRR", "p, session", "characters saved", "next word", "of five"]
    rows: list[Row] = []
    for name, system in result.systems.items():
        for view, quality in _views(system).items():
            first = quality is system.with_session
            rows.append(
                [
                    label(name) if first else "",
                    view,
                    f"{quality.mrr:.3f}",
                    p_value(system.p) if first else "",
                    f"{quality.saved:.1%}",
                    f"{quality.next_word.first:.1%}",
                    f"{quality.next_word.of_five:.1%}",
                ]
            )
    words = max(s.with_session.next_word.cases for s in result.systems.values())
    return table(heads, rows, f"{result.queries:,} queries, {words:,} next words")


def _views(system: SystemCompletions) -> dict[str, CompletionQuality]:
    return {"with the session": system.with_session, "without it": system.without_session}


def _by_length(result: CompletionResult) -> str:
    """The same by the number of typed characters."""
    first = next(iter(result.systems.values())).with_session.by_length
    heads: list[Cell | str] = [
        "MRR after characters",
        "",
        *(Cell(str(point.characters), "", f"{point.cases:,} queries") for point in first),
    ]
    rows: list[Row] = []
    for name, system in result.systems.items():
        for view, quality in _views(system).items():
            cells = (
                Cell(f"{point.mrr:.3f}", "", interval(point.mrr_low, point.mrr_high))
                for point in quality.by_length
            )
            rows.append([label(name), view, *cells])
    return table(heads, rows)


def gates(out: Path, results: ExperimentResults) -> str:
    """Update gates of own queries and of noise."""
    if not results.gates:
        return ""
    parts = [tables.gates(results)]
    if any(isinstance(gate, GateComparison) for gate in results.gates.values()):
        plots.draw_gate_means(results, out / PLOTS / "gate_means.svg")
        message = (
            "Mean update gate of a query of the user and of a noisy query inserted at the same "
            "place. The paper's claim is that noise updates less."
        )
        file = f"{PLOTS}/gate_means.svg"
        parts.append(html.plot(file, message, "Mean gates of own queries and of noise"))
    for model, gate in results.gates.items():
        if gate.example:
            message = f"{label(model)}: gates of one context with a noisy query at its end."
            parts.append(_gates_of(gate.example, out, f"gates_{model}", message))
    return "".join(parts) + _figure_7(out, results)


def _gates_of(example: GateExample, out: Path, name: str, message: str) -> str:
    file = f"{PLOTS}/{name}.svg"
    plots.draw_gates(example, out / file)
    return html.plot(file, f"{message} (Figure 7)", message)


def _figure_7(out: Path, results: ExperimentResults) -> str:
    """The gates of the paper's own example, of every model that has its words."""
    parts, lacking = [], []
    for model, paper_example in results.paper_examples.items():
        if paper_example.figure_7 is None:
            lacking.append(label(model))
            continue
        message = f"{label(model)}: gates of the paper's own example."
        parts.append(_gates_of(paper_example.figure_7, out, f"figure_7_{model}", message))
    if lacking:
        example = " → ".join(FIGURE_7)
        text = f"Not drawn for {', '.join(lacking)}: a word of {example} is unknown there."
        parts.append(paragraph(text, "note"))
    return "".join(parts)


def hidden_intent(out: Path, results: ExperimentResults) -> str:
    """How well each system predicts the hidden intent of a synthetic log."""
    return tables.hidden_intent(results) if results.hidden_intent else ""


def boundaries(out: Path, results: ExperimentResults) -> str:
    """Session boundaries found by gates, text and time."""
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
                "Boundaries found by the update gates (red), by text and by time (blue).",
                "F1 of session boundaries",
            ),
            tables.boundaries(results),
        ]
    )


def projections(out: Path, results: ExperimentResults) -> str:
    """Words and queries as points."""
    parts = []
    for model, maps in results.projections.items():
        for kind, points in (("words", maps.words), ("queries", maps.queries)):
            if points:
                file = f"{PLOTS}/{kind}_{model}.svg"
                plots.draw_projection(points, out / file)
                message = f"{label(model)}: the most frequent {kind}, near what they resemble"
                parts.append(html.plot(file, f"{message} (t-SNE; Figure 1).", message))
    return "".join(parts)


def ngrams(results: ExperimentResults) -> str:
    """Each model's validation perplexity next to those of n-gram models in its vocabulary."""
    rows: list[Row] = []
    for model, measured in results.ngrams.items():
        facts = results.training.get(model)
        texts = {ngram.order: f"{ngram.perplexity:.1f}" for ngram in measured}
        perplexity = (facts.training or {}).get("validation_perplexity") if facts else None
        rows.append(
            [
                label(model),
                f"{perplexity:.1f}" if perplexity else "–",
                *(texts.get(order, "–") for order in (1, 2, 3)),
            ]
        )
    if not rows:
        return ""
    heads = ["Validation perplexity per word", "the model", "unigrams", "bigrams", "trigrams"]
    note = (
        "Interpolated Kneser-Ney models of single queries in each model's vocabulary, fitted to "
        "the background: what is predicted without any session."
    )
    return table(heads, rows) + paragraph(note, "note")


def returning(out: Path, results: ExperimentResults) -> str:
    """Lists for returning and first-time visitors, with and without their own earlier queries."""
    result = results.returning
    if result is None or not (result.visitors or result.too_few):
        return ""
    if result.too_few:
        return html.paragraph(result.too_few)
    text = (
        "Does it help to show visitors their own earlier queries? Each system suggests its own "
        "list. Below its first five, a group again has up to three queries that the same "
        "visitor typed before, as a model of returning visitors ranks them; it is shown if the "
        f"likeliest has a probability of {result.threshold:.3f} or more. The rule to beat shows "
        "the last three distinct queries. One request per session, whose next query is the last; "
        "informational: that query is not one of the 100 most frequent. In brackets 95% "
        "intervals over users."
    )
    return html.paragraph(text + _what_again_adds(result)) + tables.returning(result)


def _what_again_adds(result: ReturningResult) -> str:
    """The main figures of the first system, in a sentence."""
    visitors = result.visitors.get("test: returning")
    if visitors is None or not visitors.lists:
        return ""
    system = next(iter(visitors.lists))
    alone, shown = visitors.lists[system].hit_5.value, visitors.shown[system].hit.value
    return (
        f" {label(system)} has the next query of returning visitors among its first five in "
        f"{alone:.1%} of the test requests, and with again in {shown:.1%}."
    )
