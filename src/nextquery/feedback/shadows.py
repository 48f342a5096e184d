"""What a model in the shadow would have shown, beside what was shown and taken.

It says how much the lists have in common and whether the shadow would have had what was taken, no
more: what only the shadow would have shown, nobody could take.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from nextquery.feedback.events import ShadowList
from nextquery.feedback.impressions import Impression


@dataclass(frozen=True)
class ShadowResult:
    """A model in the shadow against the lists that were shown."""

    model: str
    version: str
    lists: int
    overlap: float
    """The mean share of a shown list that the shadow's has, too."""
    same_first: float
    """How often both have the same first suggestion."""
    taken: int
    """Suggestions that were taken."""
    taken_known: float | None
    """The share of those that the shadow would have shown; None if none was taken."""
    taken_higher: float | None
    """Of those, the share that it would have placed higher, less that placed lower."""


def compare_shadows(impressions: Iterable[Impression]) -> tuple[ShadowResult, ...]:
    """Every model and version that was in the shadow."""
    found: defaultdict[tuple[str, str], list[tuple[Impression, ShadowList]]] = defaultdict(list)
    for each in impressions:
        for shadow in each.shadows:
            found[shadow.model, shadow.version].append((each, shadow))
    return tuple(_compare(*names, pairs) for names, pairs in sorted(found.items()))


def _compare(model: str, version: str, pairs: list[tuple[Impression, ShadowList]]) -> ShadowResult:
    overlap, same_first, taken = 0.0, 0, list[int | None]()
    for each, shadow in pairs:
        shown = [item.text for item in each.suggestions]
        other = [item.text for item in shadow.suggestions]
        overlap += len(set(shown) & set(other)) / len(shown)
        same_first += shown[:1] == other[:1]
        for place in sorted(each.taken):
            # Positive: the shadow has it higher.
            text = shown[place]
            taken.append(place - other.index(text) if text in other else None)
    known = [moved for moved in taken if moved is not None]
    higher = sum((moved > 0) - (moved < 0) for moved in known)
    return ShadowResult(
        model=model,
        version=version,
        lists=len(pairs),
        overlap=overlap / len(pairs),
        same_first=same_first / len(pairs),
        taken=len(taken),
        taken_known=len(known) / len(taken) if taken else None,
        taken_higher=higher / len(known) if known else None,
    )
