"""The tables of the report."""

from collections.abc import Mapping
from typing import Any

from nextquery.evaluation.comparison import Comparison, Quality, RankedSystem, label
from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.paper import PAPER, SESSIONS, TRAINING
from nextquery.evaluation.probes.gates import GateComparison
from nextquery.evaluation.probes.likelihood import AtDistance, IntentResult
from nextquery.evaluation.report.html import Cell, Row, paragraph, table
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.returning import (
    Estimate,
    GroupQuality,
    ListQuality,
    ReturningResult,
)
from nextquery.evaluation.scenario_run import ScenarioResult, find_comparison
from nextquery.evaluation.scenarios import SCENARIOS
from nextquery.evaluation.steps import to_json
from nextquery.ranking.features import BASELINE_FEATURES


def scenario(name: str, result: ScenarioResult, results: ExperimentResults) -> str:
    """The systems of a scenario, with the paper's results and unseen users."""
    counts = ", ".join(f"{split} {count:,}" for split, count in result.cases.items())
    facts = f"Cases: {counts}" + (
        f"; test cases of {result.users:,} users." if result.users else "."
    )
    if result.noisy_contexts is not None:
        facts += f" {result.noisy_contexts:.0%} of the test contexts hold a noisy query"
        published = PAPER[name].noisy_contexts if name in PAPER else None
        facts += f" (the paper: {published:.0%})." if published else "."
    note = paragraph(facts, "note")
    if result.too_few:
        return note + paragraph(f"Too few cases for any result: {result.too_few}.", "none")
    unseen = result.unseen_users.systems if result.unseen_users else {}
    heads: list[Cell | str] = ["System", "MRR", "hit at 1", "hit at 5", "over ADJ", "over Baseline"]
    heads += ["MRR, unseen users"] if unseen else []
    heads += [Cell(f"paper's MRR ({PAPER[name].table})", "paper")] if name in PAPER else []
    rows = [_system_row(name, system, result, unseen, results) for system in result.systems]
    return note + table(heads, rows)


def _system_row(
    name: str,
    system: str,
    result: ScenarioResult,
    unseen: Mapping[str, Quality],
    results: ExperimentResults,
) -> Row:
    quality = result.systems[system]
    strong = "strong" if system in results.main_systems else ""
    bounds = interval(*quality.interval)
    if quality.seed_error is not None:  # how far other seeds would move it
        bounds += f"; seeds ±{quality.seed_error:.4f}"
    forms = result.rankers[system].forms if system in result.rankers else ()
    forms_note = f"score as {', '.join(forms).replace('_', ' ')}" if forms else ""
    row: list[Cell | str] = [
        Cell(label(system), strong, forms_note),
        Cell(f"{quality.mrr:.4f}", strong, bounds),
        f"{quality.hit_1:.3f}",
        f"{quality.hit_5:.3f}",
        _gain(result.comparison(system, "adj")),
        _gain(result.comparison(system, baseline_of(system))),
    ]
    if unseen:
        other = unseen.get(system)  # a run need not have the cases of unseen users
        row.append(Cell(f"{other.mrr:.4f}", "", interval(*other.interval)) if other else "")
    if name in PAPER:
        row.append(_paper_cell(name, system, results))
    return row


def _paper_cell(name: str, system: str, results: ExperimentResults) -> Cell:
    first = results.systems.models[0]
    paper_feature = RankedSystem("baseline", first, "sum").key
    published = {"adj": "adj", "baseline": "baseline", paper_feature: "baseline+hred"}
    if system not in published:
        return Cell("", "paper")
    paper = PAPER[name]
    key = published[system]
    note = f"{paper.gain_text('adj')} / {paper.gain_text('baseline')}" if "+" in key else ""
    return Cell(f"{paper.mrr[key]:.4f}", "paper", note)


def baseline_of(system: str) -> str:
    """The ranker with the same features without the model, which a system is compared with."""
    parsed = RankedSystem.parse(system)
    return parsed.base if parsed.base and parsed.model else "baseline"


def _gain(comparison: Comparison | None) -> Cell:
    if comparison is None:
        return Cell("")
    mark = "" if not comparison.significant else "good" if comparison.relative > 0 else "bad"
    return Cell(f"{comparison.relative:+.1%}", mark, p_values(comparison))


def other_systems(result: ScenarioResult, results: ExperimentResults) -> str:
    """Every other model and run compared with the first model under study; "" if there are none."""
    reference = next(iter(results.systems.models), "")
    rows: list[Row] = []
    for comparison in result.comparisons:
        a, b = RankedSystem.parse(comparison.a), RankedSystem.parse(comparison.b)
        if b.model == reference and a.model not in ("", reference):
            low, high = comparison.difference_low_by_user, comparison.difference_high_by_user
            limits = f"{low:+.3f} to {high:+.3f}"
            change = Cell(f"{comparison.difference:+.4f}", "", limits)
            rows.append([label(comparison.a), label(comparison.b), change, _gain(comparison)])
    heads = ["System", f"compared with {label(reference)}", "difference of MRRs", "relative"]
    return table(heads, rows) if rows else ""


def length_gains(results: ExperimentResults) -> str:
    """What each ranker gains over the Baseline Ranker in short, medium and long sessions."""
    rows: list[Row] = []
    for name, scenario in results.reported.items():
        for system in results.main_systems[2:]:
            row: list[Cell | str] = [f"{SCENARIOS[name].title}, {label(system)}"]
            for length in scenario.by_session_length.values():
                compared = find_comparison(length.comparisons, system, "baseline")
                few = Cell("too few", "", f"{length.cases} cases")
                row.append(_gain(compared) if length.systems else few)
            rows.append(row)
    return table(["Gain over the Baseline Ranker", "short", "medium", "long"], rows)


def last_clicks(results: ExperimentResults) -> str:
    """The MRR of every system where the last query was clicked and where not; "" without clicks."""
    rows: list[Row] = []
    for name, scenario in results.reported.items():
        groups = scenario.by_last_click
        for system in scenario.systems:
            base = RankedSystem.parse(system).with_form("").key
            row: list[Cell | str] = [f"{SCENARIOS[name].title}, {label(system)}"]
            row += [_mrr_cell(group.systems.get(system)) for group in groups.values()]
            row += [
                _gain(find_comparison(group.comparisons, system, base)) for group in groups.values()
            ]
            rows += [row] if groups else []
    head = ["MRR", "clicked", "not clicked", "gain, clicked", "gain, not clicked"]
    return table(head, rows) if rows else ""


def _mrr_cell(quality: Quality | None) -> Cell:
    if quality is None:
        return Cell("too few")
    return Cell(f"{quality.mrr:.3f}", "", interval(*quality.interval))


def user_groups(results: ExperimentResults) -> str:
    """The MRR of the rankers on the users that were named, and their gains; "" if none were."""
    rows: list[Row] = []
    for name, scenario in results.reported.items():
        for group, measured in scenario.by_user_group.items():
            for system in results.main_systems:
                rows.append(
                    [
                        f"{SCENARIOS[name].title}, {group}, {label(system)}",
                        f"{measured.cases:,}",
                        _mrr_cell(measured.systems.get(system)),
                        _gain(find_comparison(measured.comparisons, system, "baseline")),
                    ]
                )
    return table(["Users apart", "cases", "MRR", "over Baseline"], rows) if rows else ""


def generation(results: ExperimentResults) -> str:
    """Everything measured of the systems' own suggestions."""
    columns = {
        "coverage": "coverage",
        "hit_1": "hit at 1",
        "hit_5": "hit at 5",
        "hit_20": "hit at 20",
        "mrr": "MRR",
        "overlap_first": "word F1, first",
        "overlap_best": "word F1, best of 5",
        "synthetic": "synthetic",
        "diversity": "diversity",
    }
    systems = results.generation.systems
    names = {"all": "All contexts", "known_anchor": "Anchor known", "unknown_anchor": "Anchor new"}
    parts = []
    for group, title in names.items():
        qualities = {
            name: lists.groups()[group]
            for name, lists in systems.items()
            if group in lists.groups()
        }
        rows: list[Row] = [
            [
                label(name),
                *(_share(getattr(quality, column)) for column in columns),
                _share(systems[name].refused_by_guards),
            ]
            for name, quality in qualities.items()
        ]
        if rows:
            contexts = next(iter(qualities.values())).contexts
            heads = ["System", *columns.values(), "refused by guards (all)"]
            parts.append(table(heads, rows, f"{title}: {contexts:,}"))
    return "".join(parts)


def curve_table(curve: LearningCurve, models: tuple[str, ...]) -> str:
    """One row per size: the Baseline Ranker, and what each model adds to it."""
    heads: list[Cell | str] = ["Background sessions", "users", "ADJ", "Baseline Ranker"]
    heads += [RankedSystem("baseline", model, "sum").label for model in models]
    rows: list[Row] = []
    for point in curve.points:
        row: list[Cell | str] = [f"{point.sessions:,}", f"{point.users:,}"]
        for system in ("adj", "baseline"):
            row.append(f"{point.ranking[system].mrr:.4f}" if point.ranking else "too few cases")
        for model in models:
            gain = point.gain(model)
            text = f"{gain.relative:+.1%}" if gain else "too few cases"
            row.append(Cell(text, "", f"p = {gain.p_by_user:.2g}" if gain else ""))
        rows.append(row)
    return table(heads, rows)


def curve_sentences(curve: LearningCurve, models: tuple[str, ...]) -> list[str]:
    """From which size on each model pays, and whether it was trained at each size."""
    sentences = []
    for model in models:
        begins = curve.begins_to_pay(model)
        if begins == curve.points[0].sessions:
            paid = f"pays already at the smallest size measured, {begins:,} background sessions."
        elif begins:
            paid = f"begins to pay at about {begins:,} background sessions."
        else:
            paid = "does not pay (p < .01 by user) at the largest size measured."
        trained = (
            " It was trained anew at every size."
            if model in curve.refitted
            else " It is the same model at every size: only counts and rankers were fitted anew."
        )
        sentences.append(f"{label(model)} {paid}{trained}")
    return sentences


_SPLITS = {"test": "Test", "unseen_users": "Users kept aside"}
_FEWEST_REQUESTS = 30
"""Fewer requests of a group of visitors show nothing."""


def returning(result: ReturningResult) -> str:
    """Two tables per group of visitors: own earlier queries, and lists with and without them."""
    parts = []
    for name, visitors in result.visitors.items():
        split, _, group_name = name.partition(": ")
        facts = f"{visitors.requests:,} requests of {visitors.users:,} users"
        before = f"the next query was typed before in {visitors.next_query_typed_before:.1%}"
        title = f"{_SPLITS.get(split, split)}, {group_name} visitors ({facts}; {before})"
        if visitors.requests < _FEWEST_REQUESTS:
            parts.append(paragraph(f"{title}: too few to measure.", "note"))
            continue
        heads = ["Own earlier queries", "shown in", "has the next query", "the same when shown"]
        heads += ["one query is the next", "the first is", "MRR", "informational MRR"]
        rule = _group_row("last three distinct queries", visitors.last_three)
        parts.append(table(heads, [_group_row("again", visitors.again), rule], title))
        heads = ["List", "hit at 1", "hit at 5", "hit at 10", "hit in the five and again"]
        rows: list[Row] = []
        for system, alone in visitors.lists.items():
            # The list of ten, and its first five with `again` after them.
            shown = visitors.shown[system]
            hits = map(_share_interval, (alone.hit_1, alone.hit_5, alone.hit_10))
            rows.append([label(system), *hits, "", *_mrr_cells(alone)])
            hits = map(_share_interval, (shown.hit_1, shown.hit_5))
            together = Cell(_share_interval(shown.hit), "strong")
            name = f"{label(system)} with again"
            rows.append([name, *hits, "", together, *_mrr_cells(shown)])
        parts.append(table([*heads, "MRR", "informational MRR"], rows) if rows else "")
    return "".join(parts)


def _group_row(name: str, group: GroupQuality) -> Row:
    lists = group.lists
    shares = (group.shown, lists.hit, group.precision_when_shown, group.precision, lists.hit_1)
    return [name, *map(_share_interval, shares), *_mrr_cells(lists)]


def _mrr_cells(lists: ListQuality) -> list[str]:
    return [
        "" if value is None
        else f"{value.value:.3f} [{value.low:.3f},\N{NO-BREAK SPACE}{value.high:.3f}]"
        for value in (lists.mrr, lists.informational_mrr)
    ]  # fmt: skip


def _share_interval(value: Estimate | None) -> str:
    if value is None:
        return ""
    return f"{value.value:.1%} [{100 * value.low:.1f},\N{NO-BREAK SPACE}{100 * value.high:.1f}]"


def samples(results: ExperimentResults) -> str:
    """A few contexts with what every system suggests."""
    contexts = results.samples.contexts
    if not contexts:
        return ""
    systems = list(contexts[0].suggestions)
    rows: list[Row] = []
    for sample in contexts:
        context = Cell(" → ".join(sample.context), "text", f"typed next: {sample.next_query}")
        lists = (sample.suggestions[system] for system in systems)
        rows.append([context, *(Cell("; ".join(texts) or "–", "text") for texts in lists)])
    return table(["Context", *(Cell(label(system), "text") for system in systems)], rows)


def gates(results: ExperimentResults) -> str:
    """Gates of own queries and of noise at the same place."""
    heads = ["Model", "contexts", "own query", "noise", "difference", "p", "noise updates less in"]
    rows: list[Row] = []
    for model, gate in results.gates.items():
        if isinstance(gate, GateComparison):
            limits = interval(gate.difference_low, gate.difference_high)
            rows.append(
                [
                    label(model),
                    f"{gate.contexts:,}",
                    f"{gate.own_query:.3f}",
                    f"{gate.noisy_query:.3f}",
                    Cell(f"{gate.difference:+.3f}", "", limits),
                    p_value(gate.p),
                    f"{gate.noise_updates_less:.0%}",
                ]
            )
    return table(heads, rows)


def hidden_intent(results: ExperimentResults) -> str:
    """How well each system tells the outcome of a hidden intent, by distance to its last trace."""
    heads = ["Model", "queries back", "outcomes", "nats among 16", "P(intent) among 4"]
    rows: list[Row] = []
    for model, intent in results.hidden_intent.items():
        rows.append([label(model), "all", *_intent(intent)])
        rows += [
            ["", str(distance.distance), *_intent(distance)] for distance in intent.by_distance
        ]
    caption = "Outcomes after a trace of the intent. Chance: 2.77 nats and .250."
    return table(heads, rows, caption)


def _intent(result: IntentResult | AtDistance) -> Row:
    return [f"{result.cases:,}", f"{result.nats:.3f}", f"{result.intent:.3f}"]


def boundaries(results: ExperimentResults) -> str:
    """Precision, recall and F1 of the boundaries found."""
    result = results.boundaries
    rows: list[Row] = [
        [name, f"{system.precision:.3f}", f"{system.recall:.3f}", f"{system.f1:.3f}"]
        for name, system in result.systems.items()
    ]
    caption = f"{result.gaps:,} gaps, {result.boundaries:,} of them boundaries"
    return table(["Score", "precision", "recall", "F1"], rows, caption)


def features(results: ExperimentResults) -> str:
    """Every feature, its meaning, and how far it gets alone."""
    scenarios = results.reported
    heads: Row = [
        "Feature",
        Cell("meaning", "text"),
        *(SCENARIOS[name].title for name in scenarios),
    ]
    rows: list[Row] = [
        [
            name,
            Cell(meaning, "text"),
            *(f"{scenario.single_features[name]:.3f}" for scenario in scenarios.values()),
        ]
        for name, meaning in BASELINE_FEATURES.items()
    ]
    caption = "MRR of each baseline feature alone, in the direction that suits it better"
    return table(heads, rows, caption)


def forms(results: ExperimentResults) -> str:
    """Validation MRR of the Baseline Ranker with a model's score in several forms."""
    scenarios = results.reported
    rows: list[Row] = []
    first = next(iter(scenarios.values()))
    for model, forms_tried in first.form_choices.items():
        for tried in forms_tried:
            row: list[Cell | str] = [
                f"{label(model)}: {tried.replace('+', ', ').replace('_', ' ')}"
            ]
            for scenario in scenarios.values():
                mrr = scenario.form_choices[model]
                best = "strong" if mrr[tried] == max(mrr.values()) else ""
                row.append(Cell(f"{mrr[tried]:.4f}", best))
            rows.append(row)
    caption = "Validation MRR; the best set is the one reported"
    return table(["Score as", *(SCENARIOS[name].title for name in scenarios)], rows, caption)


def data(results: ExperimentResults) -> str:
    """Sessions by split next to the paper's, and what the counts are counted on."""
    sessions = results.data.counts.get("sessions", {})
    rows: list[Row] = [
        [split, f"{count:,}", Cell(f"{SESSIONS[split]:,}" if split in SESSIONS else "", "paper")]
        for split, count in sessions.items()
    ]
    caption = (
        "Sessions of two or more queries: frequencies, followers and candidates of the rankings "
        "are counted on these, as in the paper; lists and completion on all searches"
    )
    return table(["Sessions", "this log", Cell("the paper's", "paper")], rows, caption)


def model_name(results: ExperimentResults, model: str) -> str:
    """A model under study as a person writes it, and whether it copies: the paper's does not."""
    name = label(model)
    facts = results.training.get(model)
    return f"{name} with copying" if facts and facts.copies and "copying" not in name else name


def copying_note(results: ExperimentResults) -> str:
    """What the short names of models that copy mean in plots and tables; may be empty."""
    full = {label(model): model_name(results, model) for model in results.systems.models}
    notes = [f" {short} stands for {name}." for short, name in full.items() if short != name]
    return "".join(notes)


def training(results: ExperimentResults) -> str:
    """The paper's Table 2 and what the models' folders say."""
    heads = [
        "Training", "batches seen", "training time", "a list, beam 50", "memory",
        "validation perplexity",
    ]  # fmt: skip
    paper = ["the paper's HRED", *TRAINING.values(), ""]
    rows: list[Row] = [[Cell(text, "paper") for text in paper]]
    for model, model_facts in results.training.items():
        decoding = results.decoding.get(model)
        facts = model_facts.training or {}
        seconds = facts.get("seconds")
        perplexity = facts.get("validation_perplexity")
        rows.append(
            [
                model_name(results, model),
                f"{facts['steps']:,}" if "steps" in facts else "–",
                f"{seconds / 60:.0f} min" if seconds else "–",
                f"{decoding.median_ms:.0f} ms" if decoding else "–",
                f"{model_facts.megabytes:.0f} MB",
                f"{perplexity:.1f}" if perplexity else "–",
            ]
        )
    return table(heads, rows)


def settings(results: ExperimentResults) -> str:
    """What the run was told, and the versions that made it."""
    values = {**to_json(results.settings), **results.versions}
    rows: list[Row] = [
        [name.replace("_", " "), Cell(_plain(value), "text")] for name, value in values.items()
    ]
    return table(["Setting", Cell("value", "text")], rows)


def interval(low: float, high: float) -> str:
    """A confidence interval."""
    return f"{low:.3f} to {high:.3f}"


def p_values(comparison: Comparison) -> str:
    """The corrected p-value by user, and that of the paper's test over cases."""
    return f"p {p_value(comparison.p_holm)}, {p_value(comparison.p)} by case"


def p_value(value: float) -> str:
    """A p-value to two digits, or that it is tiny."""
    return "< .001" if value < 0.001 else f"= {value:.2g}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
