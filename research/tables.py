"""How the pages of docs/results write numbers, and their tables about models and visitors."""

import json
from collections.abc import Iterable, Mapping, Sequence
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
FORMS = {"all": "session at every decoder step", "first": "the paper's form"}


def read(name: str) -> Any:
    """The aggregates of one study."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def gain(comparison: Document) -> str:
    """A gain with its p-value over cases.

    >>> gain({"relative": 0.314, "p": 1e-9})
    '+31.4% (p < .001)'
    >>> gain({"relative": -0.0019, "p": 0.78})
    '-0.2% (p = .78)'
    """
    return f"{comparison['relative']:+.1%} (p {p_value(comparison['p'])})"


def p_value(p: float) -> str:
    """A p-value as the pages write it."""
    if p < 0.001:
        return "< .001"
    digits = 3 if p < 0.1 else 2
    return "= " + f"{p:.{digits}f}".lstrip("0")


def interval(comparison: Document) -> str:
    """The 95% interval over cases of a difference of MRRs."""
    return f"{signed(comparison['difference_low'])} to {signed(comparison['difference_high'])}"


def mrr_text(value: float) -> str:
    """An MRR with three digits."""
    return f"{value:.3f}".lstrip("0")


def signed(value: float) -> str:
    """A difference of MRRs with its sign and three digits."""
    return f"{value:+.3f}".replace("0.", ".", 1)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    names = list(heads)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def synthetic_gains(study: str = "synthetic") -> str:
    """Each form of HRED over the Baseline Ranker: lowest to highest gain of its seeds."""
    heads = ["scenario", "cases", "users", "ADJ", "Baseline", "HRED", "seeds", "alone"]
    heads += ["paper's one feature", "chosen forms", "highest p by user"]
    document = read(study)
    rows = []
    for name, result in document["scenarios"].items():
        mrr, gains = result["mrr"], result["gains"]
        first = [TITLES[name], f"{result['cases']['test']:,}", f"{result['users']:,}"]
        first += [mrr_text(mrr["adj"]), mrr_text(mrr["baseline"])]
        for form, models in by_form(document["models"]).items():
            chosen = [gains[f"baseline+{model} over baseline"] for model in models]
            only = [gains[f"baseline+{model}:sum over baseline"] for model in models]
            alone = sorted(mrr[model] for model in models)
            cells = [FORMS[form], str(len(models)), _range([mrr_text(value) for value in alone])]
            cells += [_gain_range(only), _gain_range(chosen)]
            rows.append([*first, *cells, p_value(max(one["p_by_user"] for one in chosen))])
            first = [""] * len(first)
    return table(heads, rows)


def by_length() -> str:
    """The gain of each form of HRED in short, medium and long sessions."""
    document = read("synthetic")
    rows = [
        [TITLES[name], FORMS[form], *(_length_cell(result, length, models) for length in LENGTHS)]
        for name, result in document["scenarios"].items()
        for form, models in by_form(document["models"]).items()
    ]
    heads = ["2 queries", "3 or 4", "5 and more"]
    return table(["scenario", "HRED", *heads], rows)


def _length_cell(result: Document, length: str, models: Sequence[str]) -> str:
    gains = result["by_session_length"][length]["gains"]
    return _gain_range([gains[model] for model in models])


def by_context() -> str:
    """The mean MRR on long sessions of each form, by the number of queries that HRED sees."""
    document = read("synthetic")
    rows = []
    for name, result in document["scenarios"].items():
        for form, models in by_form(document["models"]).items():
            seen = [result["by_context_length"][model] for model in models]
            cells = [
                mrr_text(sum(one["mrr"][queries] for one in seen) / len(seen))
                for queries in ("1", "2", "3", "all")
            ]
            over_two = _gain_range([one["gains"]["all over 2"] for one in seen])
            rows.append([TITLES[name], FORMS[form], f"{seen[0]['cases']:,}", *cells, over_two])
    return table(["scenario", "HRED", "cases", "1", "2", "3", "all", "all over 2"], rows)


def by_form(models: Iterable[str]) -> dict[str, list[str]]:
    """The seeds of each form.

    >>> by_form(["all-1", "all-2", "first-1"])
    {'all': ['all-1', 'all-2'], 'first': ['first-1']}
    """
    forms: dict[str, list[str]] = {}
    for model in models:
        forms.setdefault(model.partition("-")[0], []).append(model)
    return forms


def _gain_range(gains: Sequence[Document]) -> str:
    ordered = sorted(gains, key=lambda one: one["relative"])
    return _range([f"{one['relative']:+.1%}" for one in ordered])


def _range(values: Sequence[str]) -> str:
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


ALONE = ("adj", "qvmm", "hred", "baseline")


def known_visitors() -> str:
    """The systems alone and the rankers: known and held-out visitors, HRED without copying."""
    parts = (
        ("known", "yes", "aol_held_out_last", ""),
        ("held out", "yes", "aol_held_out_last", "held_out_users"),
        ("known", "no", "aol_plain", ""),
    )
    rows = [
        [visitors, *_visitor_row(copying, name, scenario[part] if part else scenario)]
        for visitors, copying, study, part in parts
        for name, scenario in read(study)["scenarios"].items()
        if "mrr" in scenario
    ]
    return table(["visitors", "copying", *_VISITOR_HEADS], rows)


def new_visitors() -> str:
    """The same on new visitors."""
    results = read("aol")["new_visitors"]
    return table(
        ["copying", *_VISITOR_HEADS], [_visitor_row("yes", *result) for result in results.items()]
    )


_VISITOR_HEADS = ("scenario", "cases", "users", "ADJ", "QVMM", "HRED alone", "Baseline",
                  "+ HRED, paper's one feature", "+ HRED, chosen forms", "p by user",
                  "authors' Baseline + HRED")  # fmt: skip


def _visitor_row(copying: str, name: str, result: Document) -> list[str]:
    gains, mrr = result["gains"], result["mrr"]
    only, chosen = (gains[f"baseline+hred{form} over baseline"] for form in (":sum", ""))
    cells = [copying, TITLES[name], f"{number_of_cases(result):,}", f"{result['users']:,}"]
    cells += [*(mrr_text(mrr[system]) for system in ALONE), gain(only), gain(chosen)]
    authors = gains["baseline_authors+hred:sum over baseline_authors"]
    return [*cells, p_value(chosen["p_by_user"]), gain(authors)]


def number_of_cases(result: Document) -> int:
    """The test cases of a scenario, or the cases of its held-out users."""
    cases: int | Document = result["cases"]
    return cases if isinstance(cases, int) else int(cases["test"])


def encoder() -> str:
    """Every context of new visitors: the Baseline Ranker with HRED, a sentence encoder or both."""
    result = read("aol_meaning")["new_visitors"]["every_context"]
    gains, mrr = result["gains"], result["mrr"]
    heads = ["new visitors, every context", "MRR", "gain", "over", "95% interval", "p by user"]
    rows = [["Baseline", mrr_text(mrr["baseline"]), "", "", "", ""]]
    for title, system, base, other in (
        ("+ HRED, paper's one feature", "baseline+hred:sum", "baseline", "Baseline"),
        ("+ HRED", "baseline+hred", "baseline", "Baseline"),
        ("+ encoder", "baseline_semantic", "baseline", "Baseline"),
        ("+ both", "baseline_semantic+hred", "baseline", "Baseline"),
        ("", "baseline_semantic+hred", "baseline_semantic", "+ encoder"),
    ):
        over = gains[f"{system} over {base}"]
        value = mrr_text(mrr[system]) if title else ""
        cells = [title, value, f"{over['relative']:+.1%}", other, interval(over)]
        rows.append([*cells, p_value(over["p_by_user"])])
    return table(heads, rows)
