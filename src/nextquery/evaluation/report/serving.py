"""The first section of the report: which system to serve on this log."""

from collections.abc import Mapping

from nextquery.evaluation.lists import AgainstTrivial, GenerationResult, SystemLists
from nextquery.evaluation.ranked_system import label
from nextquery.evaluation.report import html
from nextquery.evaluation.report.html import Row
from nextquery.evaluation.report.tables import p_value
from nextquery.evaluation.results import ExperimentResults
from nextquery.evaluation.systems import COUNT_MODELS, TRIVIAL

CLOSE = 0.95
"""A system with this share of the best MRR is as good, and the cheaper one is recommended."""


def what_to_serve(results: ExperimentResults) -> str:
    """The systems on this log, the comparison with trivial rules, and one command."""
    if not results.generation.systems:
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
    if any(not against.better for against in _studied(results)):
        sentences.append(_expectation(results))
    return sentences


def _studied(results: ExperimentResults) -> list[AgainstTrivial]:
    every = results.generation.against_trivial
    return [against for against in every if against.system in results.systems.models]


def _verdict(against: AgainstTrivial, group: str) -> str:
    system, rule = label(against.system), label(against.rule)
    change = f"MRR {against.difference:+.4f}, p {p_value(against.p)} by user"
    if against.better:
        return f"On {group} {system} is better than the best trivial rule ({rule}): {change}."
    return (
        f"On {group} {system} is not shown to be better than the best trivial rule ({rule}): "
        f"{change}."
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
