"""Tables of docs/results/transformer.md."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from research.tables import LENGTHS, TITLES, mrr_text, p_value, read, signed, table

Document = Mapping[str, Any]
KINDS = {"hred": "HRED", "transformer": "Transformer"}
VISITORS = {"test": "known", "unseen_users": "held out"}
LOGS = {
    "aol": "AOL",
    "synthetic-60000": "synthetic, 60,000",
    "shuffled-60000": "synthetic, shuffled, 60,000",
    "synthetic-3000": "synthetic, 3,000",
    "synthetic-15000": "synthetic, 15,000",
    "synthetic-50000": "synthetic, 50,000",
    "synthetic-220000": "synthetic, 220,000",
}
COMPARED = ("aol", "synthetic-60000", "shuffled-60000")
"""Logs on which the networks are also compared by an experiment."""
CURVE = tuple(name for name in LOGS if name not in COMPARED)
"""Logs whose models are asked about the sessions of another."""


def training() -> str:
    """What each network learnt in its CPU time."""
    rows = []
    for name, title in _studies(COMPARED):
        study = read("transformer")[name]
        heads = [title, f"{study['config']}, {study['cpu_seconds']:g} s"]
        for kind, label in KINDS.items():
            runs = _of_kind(study["training"], kind)
            words = sum(run["words_per_cpu_second"] for run in runs) / len(runs)
            cells = [
                label,
                str(len(runs)),
                _spread([run["steps"] for run in runs], "{:,.0f}".format),
            ]
            cells += [f"{words:,.0f}"]
            for context in ("all", "0", "1", "2"):
                values = [run["perplexity"][context] for run in runs]
                cells.append(_spread(values, "{:.2f}".format))
            rows.append([*heads, *cells])
            heads = ["", ""]
    heads = ["log", "config, CPU time", "network", "seeds", "steps", "words per CPU second"]
    heads += ["validation perplexity", "no context", "one query", "two queries"]
    return table(heads, rows)


def gains() -> str:
    """The gain of each network over the Baseline Ranker, and the two compared."""
    rows = []
    for name, scenario, visitors, part in _scenarios():
        mrr = [mrr_text(part["mrr"][system]) for system in ("baseline", *KINDS)]
        cells = [LOGS[name], VISITORS[visitors], TITLES[scenario]]
        cells += [f"{part['cases']:,}", f"{part['users']:,}", *mrr]
        cells += [_gain_of_kind(part, kind) for kind in KINDS]
        rows.append([*cells, _difference(part["gains"]["baseline+transformer over baseline+hred"])])
    heads = ["log", "visitors", "scenario", "cases", "users", "MRR of the Baseline Ranker"]
    heads += ["HRED alone", "Transformer alone", "gain with HRED", "gain with the Transformer"]
    return table([*heads, "Transformer less HRED"], rows)


def lengths() -> str:
    """The gain of each network in next query, by the number of queries before it."""
    rows = []
    for name, title in _studies(COMPARED[:2]):
        scenarios = read("transformer")[name]["scenarios"]
        parts = scenarios["next_query"]["test"]
        for length, queries in zip(LENGTHS, ("1", "2 or 3", "4 and more"), strict=True):
            part = parts[length]
            if "gains" in part:
                cells = [title, queries, f"{part['cases']:,}"]
                cells += [_gain_of_kind(part, kind) for kind in KINDS]
                compared = part["gains"]["baseline+transformer over baseline+hred"]
                rows.append([*cells, _difference(compared)])
    heads = ["log", "context queries", "cases", "gain with HRED"]
    return table([*heads, "gain with the Transformer", "Transformer less HRED"], rows)


def queries_seen() -> str:
    """Rankers on long sessions, next query, by the number of queries that the network is given."""
    rows = []
    for name, title in _studies(COMPARED[:2]):
        models = read("transformer")[name]["queries_seen"]["next_query"]
        for kind, label in KINDS.items():
            if runs := _of_kind(models, kind):
                cells = [title, f"{runs[0]['cases']:,}", label]
                for seen in ("1", "2", "3", "all"):
                    cells.append(_spread([run[seen] for run in runs], mrr_text))
                rows.append(cells)
    return table(["log", "cases", "network", "1 query", "2", "3", "all"], rows)


def curve() -> str:
    """Perplexity, MRR alone and the hidden intent by the size of the log."""
    rows = []
    for name, _ in _studies(CURVE):
        study = read("transformer")[name]
        heads = [f"{study['sessions']['background']:,}", f"{study['cpu_seconds']:g}"]
        for kind, label in KINDS.items():
            runs, alone = _of_kind(study["training"], kind), _of_kind(study["mrr_alone"], kind)
            intents = _of_kind(study["hidden_intent"], kind)
            cells = [label, str(len(runs))]
            cells.append(_spread([run["steps"] for run in runs], "{:,.0f}".format))
            cells.append(_spread([run["perplexity"]["all"] for run in runs], "{:.2f}".format))
            for scenario in ("next_query", "robust"):
                cells.append(_spread([model[scenario] for model in alone], mrr_text))
            cells.append(_spread([probed["intent"] for probed in intents], mrr_text))
            rows.append([*heads, *cells])
            heads = ["", ""]
    heads = ["sessions to learn from", "CPU s", "network", "seeds", "steps"]
    heads += ["validation perplexity", "MRR alone, next query", "robust", "hidden intent"]
    return table(heads, rows)


def intents() -> str:
    """The probability of the hidden intent by training step of every seed."""
    runs = dict(_entries())["synthetic-60000"]["training"]
    steps = [400, 800, 1200, 1600, 2000]
    rows = []
    for kind, label in KINDS.items():
        for seed, run in enumerate(_of_kind(runs, kind), start=1):
            by_step = run["intent_by_step"]
            cells = [mrr_text(by_step[str(step)]) if str(step) in by_step else "" for step in steps]
            last = max(map(int, by_step))
            rows.append([label, str(seed), *cells, f"{mrr_text(by_step[str(last)])} ({last:,})"])
    heads = [f"{step:,} steps" for step in steps]
    return table(["network", "seed", *heads, "last step"], rows)


def lists() -> str:
    """Hits and text quality of the lists."""
    rows = []
    for name, result in _entries():
        for kind, label in KINDS.items():
            systems = _of_kind(result["lists"], kind)
            if not systems:
                continue
            cells = [LOGS[name], f"{systems[0]['contexts']:,}", label]
            for key in ("mrr", "informational_mrr", "hit_5"):
                cells.append(_spread([system[key] for system in systems], mrr_text))
            cells.append(_spread([system["places"] for system in systems], "{:.1f}".format))
            for key in ("junk", "unknown", "shortened", "frequent"):
                cells.append(_spread([system[key] for system in systems], "{:.0%}".format))
            rows.append(cells)
    heads = ["log", "contexts", "network", "MRR", "MRR (i)", "hit@5", "places filled of 5"]
    heads += ["junk", "not in the log", "last query shortened", "100 most frequent"]
    return table(heads, rows)


def cost() -> str:
    """Time of a list, memory and training speed."""
    rows = []
    for name, title in _studies(COMPARED[:1]):
        study = read("transformer")[name]
        speed = {
            kind: sum(run["words_per_cpu_second"] for run in runs) / len(runs)
            for kind in KINDS
            if (runs := _of_kind(study["training"], kind))
        }
        config = f"`{study['config']}`, {title}"
        for label, values, digits in (
            ("default list, CPU ms", study["milliseconds_per_list"], "{:.1f}"),
            ("memory of a process with the model, MB", study["megabytes"], "{:.0f}"),
            ("training, words per CPU second", speed, "{:,.0f}"),
        ):
            ratio = f"{values['transformer'] / values['hred']:.2f}"
            rows.append([label, config, *(digits.format(values[kind]) for kind in KINDS), ratio])
    return table(["cost", "config, log", *KINDS.values(), "ratio"], rows)


def _entries() -> list[tuple[str, Document]]:
    document = read("transformer")
    return [(name, document[name]) for name in LOGS if name in document]


def _studies(names: Sequence[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, LOGS[name]) for name, _ in _entries() if name in names]


def _scenarios() -> list[tuple[str, str, str, Document]]:
    """Study, scenario, visitors and results, where there are enough cases."""
    return [
        (name, scenario, visitors, splits[visitors]["all"])
        for name, result in _entries()
        for scenario, splits in result["scenarios"].items()
        for visitors in VISITORS
        if "gains" in splits.get(visitors, {}).get("all", {})
    ]


def _of_kind(models: Mapping[str, Any], kind: str) -> list[Any]:
    return [entry for name, entry in models.items() if name.startswith(f"{kind}-")]


def _gain_of_kind(part: Document, kind: str) -> str:
    """The gain of all seeds together with its p-value, and the range of single seeds."""
    together = part["gains"][f"baseline+{kind} over baseline"]
    seeds = part["gains_by_seed"][kind]
    p = p_value(together["p_by_user"]).removeprefix("= ")
    spread = f"; {min(seeds):+.1%} to {max(seeds):+.1%}" if len(seeds) > 1 else ""
    return f"{together['relative']:+.1%} ({p}{spread})"


def _difference(gain: Document) -> str:
    p = p_value(gain["p_by_user"]).removeprefix("= ")
    return f"{signed(gain['difference'])} ({signed(gain['low'])} to {signed(gain['high'])}; {p})"


def _spread(values: Sequence[float], digits: Callable[[float], str]) -> str:
    """A mean with the lowest and the highest value.

    >>> _spread([1.0, 2.0], "{:.1f}".format)
    '1.5 (1.0-2.0)'
    """
    mean = digits(sum(values) / len(values))
    return f"{mean} ({digits(min(values))}-{digits(max(values))})" if len(values) > 1 else mean
