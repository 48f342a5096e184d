"""The aggregates of an experiment's `results.json` that the pages of docs/results are made of.

Counts, means, intervals and p-values only. None of them can be traced to a query or a person, so
they may be committed where the log may not.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

Document = Mapping[str, Any]
CONTEXTS = ("1", "2", "3", "all")


def summarise(results: Document) -> dict[str, Any]:
    """What is kept of a report: every scenario, the probe, and how each model was trained."""
    models = results["systems"]["models"]
    return {
        "date": date.today().isoformat(),
        "versions": {key: results["versions"][key] for key in ("nextquery", "torch")},
        "settings": {
            key: results["settings"][key] for key in _SETTINGS if key in results["settings"]
        },
        "sessions": results["data"]["counts"]["sessions"],
        "models": {name: _training(facts) for name, facts in results["training"].items()},
        "scenarios": scenarios_of(results["scenarios"], models),
        "new_visitors": scenarios_of(results.get("new_visitors", {}), models),
        "hidden_intent": results["hidden_intent"],
    }


_SETTINGS = (
    "min_followers",
    "seeds",
    "ranker_cases",
    "ranker_positions",
    "visitors",
    "new_visitor_cases",
    "test_users",
    "earlier_queries",
)


def _training(facts: Document) -> dict[str, Any]:
    training = facts["training"]
    kept = ("epochs", "steps", "seconds", "validation_perplexity")
    return {key: training[key] for key in kept} if training else {}


def scenarios_of(scenarios: Document, models: Sequence[str]) -> dict[str, Any]:
    """The aggregates of each scenario."""
    return {name: _scenario(result, models) for name, result in scenarios.items()}


def _scenario(result: Document, models: Sequence[str]) -> dict[str, Any]:
    """The paper's comparisons in one scenario."""
    facts = {"cases": result["cases"], "users": result.get("users", 0)}
    if not result["systems"]:
        return {**facts, "too_few": result["too_few"]}
    return {
        **facts,
        **_mrr_and_gains(result),
        "by_seed": {
            name: [round(mrr, 4) for mrr in quality["mrr_by_seed"]]
            for name, quality in result["systems"].items()
            if name.startswith("baseline")
        },
        "held_out_users": _held_out(result.get("unseen_users") or {}),
        "forms": {name: ranker["forms"] for name, ranker in result.get("rankers", {}).items()},
        "form_choices": {
            model: {forms: round(mrr, 4) for forms, mrr in sets.items()}
            for model, sets in result.get("form_choices", {}).items()
        },
        "by_session_length": _by_length(result.get("by_session_length", {}), models),
        "by_user_group": _by_group(result.get("by_user_group", {})),
        "by_context_length": {
            model: _by_context(model, contexts)
            for model, contexts in result.get("by_context_length", {}).items()
        },
    }


def _mrr_and_gains(result: Document) -> dict[str, Any]:
    return {
        "mrr": {name: round(quality["mrr"], 4) for name, quality in result["systems"].items()},
        "gains": {
            f"{pair['a']} over {pair['b']}": _gain(pair)
            for pair in result["comparisons"]
            if pair["b"] != "adj"
        },
    }


def _held_out(result: Document) -> dict[str, Any]:
    """The systems on users whom neither counts, rankers nor models have seen."""
    if not result.get("systems"):
        return {}
    cases = result["systems"]["baseline"]["cases"]
    return {"cases": cases, "users": result.get("users", 0), **_mrr_and_gains(result)}


def _by_length(lengths: Document, models: Sequence[str]) -> dict[str, Any]:
    """The gain of each model over the Baseline Ranker in short, medium and long sessions."""
    kept: dict[str, Any] = {}
    for name, result in lengths.items():
        gains = {(pair["a"], pair["b"]): pair for pair in result.get("comparisons", ())}
        kept[name] = {
            "cases": result["cases"],
            "gains": {
                model: _gain(gains[f"baseline+{model}", "baseline"])
                for model in models
                if (f"baseline+{model}", "baseline") in gains
            },
        }
    return kept


def _by_group(groups: Document) -> dict[str, Any]:
    """The systems on the cases of some users."""
    return {
        name: {
            "cases": result["cases"],
            **_mrr_and_gains(result),
        }
        for name, result in groups.items()
        if result.get("systems")
    }


def _by_context(model: str, result: Document) -> dict[str, Any]:
    """The ranker's MRR on long sessions by the queries that the model sees."""
    if not result.get("queries"):
        return {"cases": result["cases"]}
    ranker = f"baseline+{model}"
    return {
        "cases": result["cases"],
        "mrr": {seen: round(result["queries"][seen][ranker]["mrr"], 4) for seen in CONTEXTS},
        "gains": {f"all over {pair['b']}": _gain(pair) for pair in result.get("comparisons", ())},
    }


def _gain(comparison: Document) -> dict[str, Any]:
    """A comparison, rounded; what earlier versions did not have is left out."""
    ends = ("difference_low", "difference_high")
    kept = ("relative", "difference", *ends, *(f"{end}_by_user" for end in ends))
    gain = {key: round(comparison[key], 4) for key in kept if comparison.get(key) is not None}
    p_values = ("p", "p_by_user", "p_holm")
    return gain | {
        key: float(f"{comparison[key]:.2g}") for key in p_values if comparison.get(key) is not None
    }
