"""Whether a new model may replace the one that is served: `nextquery check`.

Both models and two trivial rules make lists for the same later sessions, which neither model has
learnt from. Differences are judged by user, because one person's sessions are alike: intervals by
bootstrap, decisions by a permutation test. The likelihood is compared on next queries of which both
models know all words, since a model with fewer words predicts "unknown" more easily.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nextquery.artifacts import further_entries, open_artifact, publish
from nextquery.errors import InputError
from nextquery.evaluation.lists import rank_in, suggest_all
from nextquery.evaluation.settings import CheckSettings
from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.records import ScoredQuery
from nextquery.suggesters.base import BatchScorer, Scorer, Suggester
from nextquery.suggesters.loading import load

Floats = NDArray[np.float64]
RESAMPLES = 4000
SIGNIFICANT = 0.01
"""Below this chance a loss is a regression."""
_BATCH = 64


@dataclass(frozen=True)
class Case:
    """A session so far and the query that came next."""

    user: str
    context: tuple[str, ...]
    query: str


@dataclass(frozen=True)
class Difference:
    """How much better the new model is than something else, with its 99% interval over users."""

    other: str
    measure: str
    new: float
    old: float
    difference: float
    low: float
    high: float
    p_worse: float
    """How likely so large a loss beyond the tolerance is by chance, over users."""
    cases: int


@dataclass(frozen=True)
class Check:
    """The comparison of two models and what follows."""

    new: str
    old: str
    cases: int
    users: int
    mrr: Mapping[str, float]
    """Of both models and both rules."""
    nll: Mapping[str, float]
    """Nats per symbol of both models, over next queries of which both know all words."""
    differences: tuple[Difference, ...]
    reasons: tuple[str, ...]
    """Why the new model must not replace the old one; none: it may."""

    @property
    def passed(self) -> bool:
        """Whether the new model may replace the old one."""
        return not self.reasons

    def document(self) -> dict[str, Any]:
        """The result as JSON takes it."""
        return {"passed": self.passed, **asdict(self)}


def check(new: Path, old: Path, data: PreparedData, settings: CheckSettings | None = None) -> Check:
    """Compare two model folders on the sessions of `data` after what both have learnt from."""
    settings = settings or CheckSettings()
    rows = later_rows(data, [_until(new), _until(old)])
    cases = draw_cases(rows, settings.cases)
    if not cases:
        raise InputError(
            f"{data.path}: has no session of two queries after the models' last one; add a later "
            "day to the folder, or prepare it with `split_days`"
        )
    users = len({case.user for case in cases})
    models = {"new": load(new), "old": load(old)}
    ranks = reciprocal_ranks(models, data, cases, settings.list_length)
    differences = [
        _difference("mrr", other, ranks["new"], ranks[other], cases, settings.tolerance)
        for other in ("old", *RULES)
    ]
    nats, known = _nats(models["new"], models["old"], cases)
    if known:
        difference = _difference(
            "nll", "old", -nats["new"], -nats["old"], known, settings.tolerance
        )
        differences.append(difference)
    beat_old = better_rules("old", ranks, cases, settings.tolerance)
    return Check(
        new=str(new),
        old=str(old),
        cases=len(cases),
        users=users,
        mrr={name: float(values.mean()) for name, values in ranks.items()},
        nll={name: float(values.mean()) for name, values in nats.items()} if known else {},
        differences=tuple(differences),
        reasons=tuple(_reasons(differences, beat_old, users, settings)),
    )


def _reasons(
    differences: Sequence[Difference],
    beat_old: Sequence[str],
    users: int,
    settings: CheckSettings,
) -> list[str]:
    """What speaks against the new model.

    The rules `beat_old` already beat the old model and do not speak for keeping it.
    """
    reasons = []
    if users < settings.min_users:
        reasons.append(f"only {users} users have later sessions; {settings.min_users} are needed")
    for difference in differences:
        if difference.p_worse >= SIGNIFICANT or difference.other in beat_old:
            continue
        if difference.measure == "nll":
            reasons.append(
                f"next queries are less likely than with the old model: {-difference.new:.3f} "
                f"nats per symbol, {-difference.old:.3f} before"
            )
        else:
            other = "the old model" if difference.other == "old" else difference.other
            reasons.append(f"MRR {difference.new:.4f}, {other} has {difference.old:.4f}")
    return reasons


def _until(model: Path) -> datetime | None:
    """The time of the last query that a model learnt from, if it says."""
    entry = open_artifact(model, verify=False).manifest.get("data", {})
    return datetime.fromisoformat(entry["until"]) if entry.get("until") else None


def later_rows(data: PreparedData, until: Sequence[datetime | None]) -> pl.DataFrame:
    """The rows of all splits but the background, after the given times."""
    splits = [split for split in data.splits if split not in ("background", UNSEEN_USERS)]
    nothing = data.session_rows("background").clear()
    rows = pl.concat([nothing, *(data.session_rows(split) for split in splits)])
    times = [time for time in until if time is not None]
    if times:
        rows = rows.filter((pl.col("time").min() > max(times)).over("session"))
    return rows.collect()


def draw_cases(rows: pl.DataFrame, most: int) -> list[Case]:
    """At most `most` next queries of sessions, drawn at random; repeated queries are left out."""
    sessions = (
        rows.sort("session", "position")
        .group_by("session", maintain_order=True)
        .agg(pl.col("user").first(), pl.col("query"))
    )
    cases = [
        Case(user, tuple(queries[:position]), queries[position])
        for user, queries in sessions.select("user", "query").iter_rows()
        for position in range(1, len(queries))
        if queries[position] not in queries[:position]
    ]
    drawn = np.random.default_rng(0).permutation(len(cases))[:most]
    return [cases[index] for index in sorted(drawn.tolist())]


RULES = ("popularity", "dropped words")
"""What needs no model: popular queries, and the last query without some of its words."""


def reciprocal_ranks(
    models: Mapping[str, Suggester], data: PreparedData, cases: Sequence[Case], n: int
) -> dict[str, Floats]:
    """One over the rank of each next query in the lists of `n` of models and rules, 0 if absent."""
    contexts = [case.context for case in cases]
    lists = {name: suggest_all(model, contexts, iter, n) for name, model in models.items()}
    frequent = data.counts("queries").sort("count", "query", descending=[True, False])
    popular = frequent.head(n + 100).select("query").collect()["query"].to_list()
    lists["popularity"] = [[text for text in popular if text not in c][:n] for c in contexts]
    lists["dropped words"] = [shorter_queries(context, n) for context in contexts]
    return {
        name: np.array([1 / rank_in(texts, c.query) for texts, c in zip(rows, cases, strict=True)])
        for name, rows in lists.items()
    }


def shorter_queries(context: Sequence[str], n: int) -> list[str]:
    """The last query without one word, then without its last or first words.

    >>> shorter_queries(["cheap red shoes"], 10)
    ['cheap red', 'red shoes', 'cheap shoes', 'cheap', 'shoes']
    """
    words = context[-1].split()
    shorter = [" ".join(words[:-1]), " ".join(words[1:])]
    shorter += [" ".join(words[:at] + words[at + 1 :]) for at in range(1, len(words) - 1)]
    for length in range(len(words) - 2, 0, -1):
        shorter += [" ".join(words[:length]), " ".join(words[-length:])]
    return [text for text in dict.fromkeys(shorter) if text and text not in context][:n]


def better_rules(
    name: str, ranks: Mapping[str, Floats], cases: Sequence[Case], tolerance: float
) -> list[str]:
    """The rules that are better than a model over users, by more than the tolerance."""
    return [
        rule
        for rule in RULES
        if _difference("mrr", rule, ranks[name], ranks[rule], cases, tolerance).p_worse
        < SIGNIFICANT
    ]


def compare_with_rules(
    model: Suggester, data: PreparedData, rows: pl.DataFrame, most: int
) -> tuple[dict[str, float], tuple[str, ...]]:
    """The MRR of a model and of the rules on sessions, and which rules are better over users."""
    settings = CheckSettings()
    cases = draw_cases(rows, most)
    if not cases:
        return {}, ()
    ranks = reciprocal_ranks({"model": model}, data, cases, settings.list_length)
    better = better_rules("model", ranks, cases, settings.tolerance)
    return {name: float(values.mean()) for name, values in ranks.items()}, tuple(better)


def _nats(new: Scorer, old: Scorer, cases: Sequence[Case]) -> tuple[dict[str, Floats], list[Case]]:
    """Nats per symbol by both models, of the cases whose words both of them know."""
    contexts, queries = [case.context for case in cases], [case.query for case in cases]
    scored = {
        "new": score_queries(new, contexts, queries),
        "old": score_queries(old, contexts, queries),
    }
    known = [
        index
        for index, scores in enumerate(zip(*scored.values(), strict=True))
        if all(not score.unknown and np.isfinite(score.log_likelihood) for score in scores)
    ]
    nats = {
        name: np.array([-scores[index].log_likelihood / scores[index].words for index in known])
        for name, scores in scored.items()
    }
    return nats, [cases[index] for index in known]


def score_queries(
    model: Scorer, contexts: Sequence[Sequence[str]], queries: Sequence[str]
) -> list[ScoredQuery]:
    """The score of one query after each context."""
    scored: list[ScoredQuery] = []
    for start in range(0, len(contexts), _BATCH):
        batch = contexts[start : start + _BATCH]
        candidates = [[query] for query in queries[start : start + _BATCH]]
        if isinstance(model, BatchScorer):
            scores = model.score_many(batch, candidates)
        else:
            scores = [model.score(*pair) for pair in zip(batch, candidates, strict=True)]
        scored += [score for [score] in scores]
    return scored


def _difference(
    measure: str,
    other: str,
    first: Floats,
    second: Floats,
    cases: Sequence[Case],
    tolerance: float,
) -> Difference:
    users = [case.user for case in cases]
    new, old = float(first.mean()), float(second.mean())
    margin = tolerance * old if measure == "mrr" else tolerance
    low, high = interval_by_user(first - second, users)
    p_worse = chance_of_loss(first - second + margin, users)
    return Difference(other, measure, new, old, new - old, low, high, p_worse, len(cases))


def chance_of_loss(differences: Floats, users: Sequence[str]) -> float:
    """How often users' differences with random signs sum up to as little (permutation test).

    >>> chance_of_loss(np.full(10, -1.0), list("abcdefghij")) < 0.01
    True
    >>> chance_of_loss(np.full(3, -1.0), list("abc")) > 0.1
    True
    """
    sums = _by_user(differences, users)[0]
    generator = np.random.default_rng(0)
    as_low = 0
    for _ in range(RESAMPLES):
        signs = generator.integers(2, size=len(sums)) * 2 - 1
        as_low += float((sums * signs).sum()) <= float(sums.sum()) + 1e-12
    return (1 + as_low) / (1 + RESAMPLES)


def _by_user(differences: Floats, users: Sequence[str]) -> tuple[Floats, Floats]:
    """The sum of each user's differences, and how many there are."""
    _, user_index = np.unique(np.array(users), return_inverse=True)
    counts = np.bincount(user_index).astype(np.float64)
    sums = np.bincount(user_index, weights=differences).astype(np.float64)
    return sums, counts


def interval_by_user(differences: Floats, users: Sequence[str]) -> tuple[float, float]:
    """The 99% interval of the mean difference, over draws of users with all their cases.

    >>> low, high = interval_by_user(np.array([1.0, 1.0, 1.0, 1.0]), ["a", "a", "b", "c"])
    >>> (low, high)
    (1.0, 1.0)
    """
    sums, counts = _by_user(differences, users)
    number = len(sums)
    generator = np.random.default_rng(0)
    means = []
    for _ in range(RESAMPLES):
        drawn = generator.integers(number, size=number)
        means.append(sums[drawn].sum() / counts[drawn].sum())
    low, high = np.quantile(means, [0.005, 0.995])
    return float(low), float(high)


def promote(new: Path, old: Path) -> None:
    """Replace the model `old` by a copy of `new` in one step."""
    artifact = open_artifact(new)
    with publish(old, artifact.kind, further_entries(artifact.manifest)) as folder:
        artifact.copy_files(folder, artifact.manifest["files"])
