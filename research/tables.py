"""The tables of docs/results/experiments.md about models and visitors."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
TITLES = {
    "next_query": "next query",
    "robust": "robust",
    "long_tail": "long tail",
    "every_context": "every context",
}
LENGTHS = ("short", "medium", "long")


def read(name: str) -> Any:
    """The committed aggregates of one study."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def gain(found: Document) -> str:
    """A gain with its p-value.

    >>> gain({"relative": 0.314, "p": 1e-9})
    '+31.4% (p < .001)'
    >>> gain({"relative": -0.0019, "p": 0.78})
    '-0.2% (p = .78)'
    """
    return f"{found['relative']:+.1%} (p {p_value(found['p'])})"


def p_value(p: float) -> str:
    """A p-value as the page writes it."""
    if p < 0.001:
        return "< .001"
    digits = 3 if p < 0.1 else 2
    return "= " + f"{p:.{digits}f}".lstrip("0")


def interval(found: Document) -> str:
    """The 95% interval of a difference of MRRs."""
    return f"{_signed(found['difference_low'])} to {_signed(found['difference_high'])}"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    names = list(heads)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def made_up_gains(study: str = "made_up") -> str:
    """Every model over the Baseline Ranker, with the paper's one feature and with chosen forms."""
    heads = ["scenario", "cases", "ADJ", "Baseline", "model", "alone", "+ HRED, sum only"]
    heads += ["+ HRED", "its gain over Baseline", "95% interval", "p by user"]
    found = read(study)
    rows = [
        [*_facts(name, each, first), *_model_cells(each, model)]
        for name, each in found["scenarios"].items()
        if "mrr" in each
        for first, model in _with_first(found["models"])
    ]
    return table(heads, rows)


def by_length() -> str:
    """The gain of every model in short, medium and long sessions."""
    found = read("made_up")
    rows = [
        [TITLES[name], model, *(_length_cell(each, length, model) for length in LENGTHS)]
        for name, each in found["scenarios"].items()
        for model in found["models"]
    ]
    return table(["scenario", "model", *LENGTHS], rows)


def by_context() -> str:
    """The MRR on long sessions by the queries that HRED sees."""
    found = read("made_up")
    heads = ["scenario", "model", "cases", "1", "2", "3", "all", "all over 2"]
    rows = []
    for name, each in found["scenarios"].items():
        for model, seen in each["by_context_length"].items():
            mrr = [mrr_text(seen["mrr"][queries]) for queries in ("1", "2", "3", "all")]
            cells = [TITLES[name], model, f"{seen['cases']:,}", *mrr]
            rows.append([*cells, gain(seen["gains"]["all over 2"])])
    return table(heads, rows)


def intent() -> str:
    """The probe of the hidden intent, by the distance to its last trace."""
    found = read("made_up")
    heads = ["model", "validation perplexity", "nats", "probability of the intent"]
    heads += ["1 query back", "2", "3", "4", "5 and more"]
    rows = []
    for model, probe in found["hidden_intent"].items():
        far = [f"{each['nats']:.2f}" for each in probe["by_distance"]]
        perplexity = f"{found['models'][model]['validation_perplexity']:.2f}"
        rows.append([model, perplexity, f"{probe['nats']:.2f}", mrr_text(probe["intent"]), *far])
    return table(heads, rows)


def new_visitors(study: str) -> str:
    """The rankers on new visitors, and the model alone."""
    heads = ["new visitors", "test cases", "users", "ADJ", "HRED alone", "Baseline"]
    heads += ["+ HRED, sum only", "+ HRED", "95% interval", "p by user", "authors' Baseline + HRED"]
    rows = []
    for name, each in read(study)["new_visitors"].items():
        facts = [TITLES[name], f"{each['cases']['test']:,}", f"{each['users']:,}"]
        if "mrr" not in each:
            rows.append([*facts, *["too few"] * 8])
            continue
        gains, mrr = each["gains"], each["mrr"]
        chosen = gains["baseline+hred over baseline"]
        authors = gains["baseline_authors+hred:sum over baseline_authors"]
        cells = [mrr_text(mrr[system]) for system in ("adj", "hred", "baseline")]
        cells += [gain(gains["baseline+hred:sum over baseline"]), gain(chosen), interval(chosen)]
        rows.append([*facts, *cells, p_value(chosen["p_by_user"]), gain(authors)])
    return table(heads, rows)


def known_visitors(study: str = "aol_known") -> str:
    """The rankers on known visitors, and the model alone."""
    heads = ["known visitors", "test cases", "users", "ADJ", "HRED alone", "Baseline"]
    heads += ["+ HRED, sum only", "p by user", "+ HRED", "95% interval", "p by user"]
    rows = []
    for name, each in read(study)["scenarios"].items():
        cells = [TITLES[name], f"{each['cases']['test']:,}", f"{each['users']:,}"]
        if "mrr" not in each:
            rows.append([*cells, *["too few"] * 8])
            continue
        gains, mrr = each["gains"], each["mrr"]
        only, chosen = (gains[f"baseline+hred{form} over baseline"] for form in (":sum", ""))
        cells += [mrr_text(mrr[system]) for system in ("adj", "hred", "baseline")]
        cells += [gain(only), p_value(only["p_by_user"]), gain(chosen), interval(chosen)]
        rows.append([*cells, p_value(chosen["p_by_user"])])
    return table(heads, rows)


def meaning(study: str) -> str:
    """What a sentence encoder adds to the Baseline Ranker, and HRED to both."""
    heads = ["new visitors", "test cases", "Baseline", "with the encoder", "its gain over Baseline"]
    heads += ["+ HRED", "gain over the one with the encoder", "95% interval", "p by user"]
    rows = []
    for name, each in read(study)["new_visitors"].items():
        gains, mrr = each["gains"], each["mrr"]
        added = gains["baseline_semantic+hred over baseline_semantic"]
        cells = [TITLES[name], f"{each['cases']['test']:,}", mrr_text(mrr["baseline"])]
        cells += [
            mrr_text(mrr["baseline_semantic"]),
            gain(gains["baseline_semantic over baseline"]),
        ]
        cells += [mrr_text(mrr["baseline_semantic+hred"]), gain(added), interval(added)]
        rows.append([*cells, p_value(added["p_by_user"])])
    return table(heads, rows)


def meaning_in_contexts() -> str:
    """Every context of new visitors: Baseline, + HRED, + encoder, + both, each against others."""
    each = read("aol_meaning")["new_visitors"]["every_context"]
    gains, mrr = each["gains"], each["mrr"]
    heads = ["new visitors, every context", "MRR", "gain", "over", "95% interval", "p by user"]
    rows = [["Baseline", mrr_text(mrr["baseline"]), "", "", "", ""]]
    for title, system, base, other in (
        ("+ HRED, sum only", "baseline+hred:sum", "baseline", "Baseline"),
        ("+ HRED", "baseline+hred", "baseline", "Baseline"),
        ("+ encoder", "baseline_semantic", "baseline", "Baseline"),
        ("+ both", "baseline_semantic+hred", "baseline", "Baseline"),
        ("", "baseline_semantic+hred", "baseline_semantic", "+ encoder"),
    ):
        found = gains[f"{system} over {base}"]
        value = mrr_text(mrr[system]) if title else ""
        p = p_value(found["p_by_user"])
        rows.append([title, value, gain(found), other, interval(found), p])
    return table(heads, rows)


def leak() -> str:
    """The Baseline Ranker of new visitors by three ways of counting, on the log and its control."""
    heads = ["log", "counts without", "test cases", "users", "ADJ", "frequency alone", "Baseline"]
    heads += [
        "importance of `frequency`",
        "the best anybody can do",
        "Baseline against it, p by user",
    ]
    ways = {
        "folds": "the user's fold (ours)",
        "halves": "the user's half",
        "single users": "the user alone",
    }
    rows = []
    for log, found in read("leak").items():
        for way, each in found.items():
            cells = [
                log if way == "folds" else "",
                ways[way],
                f"{each['cases']:,}",
                f"{each['users']:,}",
            ]
            names = ("adj", "frequency", "baseline", "importance_of_frequency")
            best = (
                (mrr_text(each["best"]), p_value(each["p_by_user"])) if "best" in each else ("", "")
            )
            rows.append([*cells, *(mrr_text(each[name]) for name in names), *best])
    return table(heads, rows)


def _facts(name: str, each: Document, first: bool) -> list[str]:
    if not first:
        return ["", "", "", ""]
    mrr = each["mrr"]
    cases = f"{each['cases']['test']:,}"
    return [TITLES[name], cases, mrr_text(mrr["adj"]), mrr_text(mrr["baseline"])]


def _model_cells(each: Document, model: str) -> list[str]:
    gains, mrr = each["gains"], each["mrr"]
    chosen = gains[f"baseline+{model} over baseline"]
    only = gains[f"baseline+{model}:sum over baseline"]
    found = [
        model,
        mrr_text(mrr[model]),
        gain(only),
        mrr_text(mrr[f"baseline+{model}"]),
        gain(chosen),
    ]
    return [*found, interval(chosen), p_value(chosen["p_by_user"])]


def _length_cell(each: Document, length: str, model: str) -> str:
    found = each["by_session_length"].get(length, {}).get("gains", {}).get(model)
    return gain(found) if found else "too few"


def _with_first(models: Iterable[str]) -> list[tuple[bool, str]]:
    return [(place == 0, model) for place, model in enumerate(models)]


def mrr_text(value: float) -> str:
    """An MRR with three digits."""
    return f"{value:.3f}".lstrip("0")


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)
