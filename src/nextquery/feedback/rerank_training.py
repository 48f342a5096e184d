"""Learn an order from accepted suggestions: LambdaMART on debiased clicks.

Each accepted suggestion is a case: it should have been above the others that were shown with it. A
low position counts for more, by how seldom it is examined (inverse propensity; Joachims,
Swaminathan and Schnabel 2017). Visitors are divided: the rates that a case sees are of other
visitors, and a fifth of the visitors decides how many trees are kept. A re-ranker is published only
if it orders the lists of the rest better than the base model does.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import (
    MANIFEST,
    Artifact,
    check_target,
    open_artifact,
    publish,
    read_artifact,
)
from nextquery.errors import InputError
from nextquery.feedback.acceptance import PositionBias, Z, estimate_position_bias
from nextquery.feedback.impressions import Impression
from nextquery.feedback.reranker import (
    BASE,
    FEATURES,
    KIND,
    TakenRates,
    fingerprint,
    list_features,
)
from nextquery.feedback.settings import RerankSettings
from nextquery.guard.tables import FOLDER as GUARD
from nextquery.inference.trees import Trees
from nextquery.normalise import normalise_query
from nextquery.ranking.cases import CaseSet, RankingCase, reciprocal_ranks, user_fold
from nextquery.ranking.features import FeatureTable
from nextquery.ranking.lambdamart import RankedPart, RankerData, TreeShape, train_ranker
from nextquery.suggesters.background import save_array, save_record

FOLDS = 5
"""The visitors of the last fold choose the number of trees, those before it check the gain."""
SHAPE = TreeShape(leaves=7, rate=0.1, smallest_leaf=20)
LARGEST_WEIGHT = 10.0
"""The weight of an accepted suggestion is at most this, however seldom its position is examined."""


@dataclass(frozen=True)
class Gain:
    """How much higher accepted suggestions are in the new order, for visitors not learnt from.

    Mean reciprocal ranks within the lists as they were shown, debiased; a 95% interval.
    """

    base: float
    reranked: float
    gain: float
    low: float
    high: float
    cases: int


@dataclass(frozen=True)
class RerankResult:
    """What was made of the feedback."""

    impressions: int
    taken: int
    gain: Gain
    trees: int
    importances: dict[str, float]


@dataclass(frozen=True)
class TrainedReranker:
    """What was learnt, and how well it does."""

    trees: Trees
    rates: TakenRates
    result: RerankResult


def make_reranker(
    impressions: Sequence[Impression],
    base: Path,
    target: Path,
    name: str,
    settings: RerankSettings,
) -> RerankResult:
    """Train on the lists of `base`, served as `name`, and publish; refused if nothing is gained."""
    check_target(target, KIND)
    model = name or open_artifact(base, verify=False).kind
    trained = train_reranker(impressions, model, settings)
    gain = trained.result.gain
    if gain.low <= 0:
        raise InputError(
            "nothing was learnt that helps other visitors: the suggestions that they accepted have "
            f"a mean reciprocal rank of {gain.reranked:.3f} instead of {gain.base:.3f} "
            f"(gain {gain.low:+.3f} to {gain.high:+.3f}); nothing was written. Collect more "
            "feedback, and serve with `interleave` so that places vary"
        )
    publish_reranker(base, target, trained)
    return trained.result


def train_reranker(
    impressions: Sequence[Impression], model: str, settings: RerankSettings
) -> TrainedReranker:
    """Learn the order of one model's suggestions; refused where too few were accepted.

    Of an interleaved list the model's suggestions count, in the order that they have there.
    """
    of_model = [impression for impression in impressions if _positions_of(impression, model)]
    accepted = sum(
        position in impression.taken
        for impression in of_model
        for position in _positions_of(impression, model)
    )
    if accepted < settings.min_taken:
        names = ", ".join(
            sorted({item.model for impression in impressions for item in impression.suggestions})
        )
        raise InputError(
            f"{accepted} suggestions of {model} were taken, {settings.min_taken} are needed "
            f"(`min_taken`); there are suggestions of: {names or 'none'}"
        )
    bias = estimate_position_bias(impressions)
    rates = [
        count_accepted(
            (impression for impression in impressions if _fold(impression) != fold),
            bias,
            settings.min_visitors,
        )
        for fold in range(FOLDS)
    ]
    parts = [_cases(of_model, model, fold, rates[fold], bias) for fold in range(FOLDS)]
    taught = parts[: FOLDS - 2]
    training = RankedPart(
        CaseSet(case for part in taught for case in part.cases),
        FeatureTable(FEATURES, np.concatenate([part.features.values for part in taught])),
        np.concatenate([part.weights for part in taught if part.weights is not None]),
    )
    ranker = train_ranker(RankerData(training, parts[-1], SHAPE.smallest_leaf), SHAPE, seed=1)
    trees = ranker.to_trees()
    result = RerankResult(
        impressions=len(of_model),
        taken=accepted,
        gain=_gain(parts[-2], trees),
        trees=len(trees.roots),
        importances=ranker.importances(),
    )
    return TrainedReranker(trees, count_accepted(impressions, bias, settings.min_visitors), result)


def count_accepted(
    impressions: Iterable[Impression], bias: PositionBias, min_visitors: int
) -> TakenRates:
    """The rates of all suggestions that at least `min_visitors` were shown."""
    counts: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    visitors: defaultdict[int, set[str]] = defaultdict(set)
    total = [0.0, 0.0]
    for impression in impressions:
        for position, suggestion in enumerate(impression.examined):
            examined, accepted = bias.examined(position), float(position in impression.taken)
            total = [total[0] + examined, total[1] + accepted]
            for query in ("", normalise_query(impression.query)):
                key = fingerprint(query, suggestion.text)
                counts[key][0] += examined
                counts[key][1] += accepted
                if len(visitors[key]) < min_visitors:
                    visitors[key].add(impression.visitor)
    enough_visitors = sorted(key for key, seen in visitors.items() if len(seen) >= min_visitors)
    table = np.array([counts[key] for key in enough_visitors], dtype=np.float64).reshape(-1, 2)
    overall = (total[1] + 1) / (total[0] + 2)
    return TakenRates(np.array(enough_visitors, dtype=np.uint64), table[:, 0], table[:, 1], overall)


def publish_reranker(base: Path, target: Path, trained: TrainedReranker) -> None:
    """Put the trees and rates together with the model that they order the lists of."""

    def write(artifact: Artifact) -> None:
        entries = {
            "base": artifact.kind,
            "enabled": True,
            "features": list(FEATURES),
            "gain": asdict(trained.result.gain),
            "counts": {"impressions": trained.result.impressions, "trees": trained.result.trees},
        }
        with publish(target, KIND, entries) as folder:
            artifact.copy_files(folder / BASE, artifact.manifest["files"])
            (folder / BASE / MANIFEST).write_bytes(artifact.manifest_bytes)
            artifact.copy_files(folder, artifact.files(GUARD))
            save_record(folder, "trees", trained.trees)
            rates = trained.rates
            for name in ("keys", "exposures", "taken"):
                save_array(folder, f"rates_{name}.npy", getattr(rates, name))
            save_array(folder, "rates_overall.npy", np.array([rates.overall]))

    read_artifact(base, write)


def _positions_of(impression: Impression, model: str) -> list[int]:
    """The positions of a list that one model filled."""
    return [position for position, item in enumerate(impression.suggestions) if item.model == model]


def _fold(impression: Impression) -> int:
    return user_fold(impression.visitor, FOLDS)


def _cases(
    impressions: Sequence[Impression],
    model: str,
    fold: int,
    rates: TakenRates,
    bias: PositionBias,
) -> RankedPart:
    """One case per suggestion that a visitor of the fold accepted, with features and weight."""
    cases, rows, weights = list[RankingCase](), list[NDArray[np.float64]](), list[float]()
    for impression in impressions:
        positions = _positions_of(impression, model)
        accepted = [position for position in positions if position in impression.taken]
        if _fold(impression) != fold or not accepted or len(positions) < 2:
            continue
        session = tuple(map(normalise_query, impression.session))
        items = [impression.suggestions[position] for position in positions]
        features = list_features(session, items, rates)
        texts = tuple(item.text for item in items)
        for position in accepted:
            target = positions.index(position)
            cases.append(RankingCase(len(cases), session, session[-1], texts, target, len(session)))
            rows.append(features)
            weights.append(min(1 / bias.examined(position), LARGEST_WEIGHT))
    values = np.concatenate(rows) if rows else np.zeros((0, len(FEATURES)))
    return RankedPart(CaseSet(cases), FeatureTable(FEATURES, values), np.array(weights))


def _gain(part: RankedPart, trees: Trees) -> Gain:
    """The order of the trees against the order in which the lists were shown."""
    assert part.weights is not None
    shown = -part.features.column("rank")
    before = reciprocal_ranks(part.cases, shown)
    after = reciprocal_ranks(part.cases, trees.scores(part.features.values))
    share = part.weights / part.weights.sum()
    gain = float((share * (after - before)).sum())
    error = math.sqrt(float((share**2 * (after - before - gain) ** 2).sum()))
    return Gain(
        base=float((share * before).sum()),
        reranked=float((share * after).sum()),
        gain=gain,
        low=gain - Z * error,
        high=gain + Z * error,
        cases=len(part.cases),
    )
