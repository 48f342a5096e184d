"""What became of the lists: one computation over all impressions."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nextquery.errors import InputError
from nextquery.feedback.acceptance import Acceptance, AcceptanceCount
from nextquery.feedback.impressions import Feedback, Impression, SetAside
from nextquery.feedback.position_bias import PositionBias, estimate_position_bias
from nextquery.feedback.settings import ReportSettings

Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class NeverTaken:
    """A query after which nothing was ever taken, and what was shown there most often."""

    query: str
    lists: Acceptance
    suggestions: tuple[str, ...]


@dataclass(frozen=True)
class FeedbackReport:
    """What was shown, taken and dismissed. `lists` count lists, the others single suggestions."""

    lists: Acceptance
    suggestions: Acceptance
    by_position: Mapping[int, Acceptance]
    by_model: Mapping[str, Acceptance]
    by_source: Mapping[str, Acceptance]
    by_day: Mapping[str, Acceptance]
    """Lists of each day."""
    by_query: Mapping[str, Acceptance]
    """Lists after the queries that most lists were shown for."""
    queries: int
    """Different queries, named or not."""
    never_taken: tuple[NeverTaken, ...]
    position_bias: PositionBias
    set_aside: Mapping[str, int]
    settings: ReportSettings


def report_on(feedback: Feedback, settings: ReportSettings) -> FeedbackReport:
    """The report on impressions; refused where there are none."""
    shown = feedback.impressions
    if not shown:
        aside = ", ".join(f"{n} {reason}" for reason, n in feedback.set_aside.items())
        raise InputError(f"no list was shown to anybody ({aside or 'no events at all'})")
    by_query = _lists_by(shown, lambda each: each.query)
    return FeedbackReport(
        lists=_lists_by(shown, lambda _: "")[""].acceptance(),
        suggestions=_places_by(shown, lambda *_: "")[""].acceptance(),
        by_position=_sorted(_places_by(shown, lambda _, place: place + 1)),
        by_model=_sorted(_places_by(shown, lambda each, place: each.suggestions[place].model)),
        by_source=_sorted(_places_by(shown, lambda each, place: each.suggestions[place].source)),
        by_day=_sorted(_lists_by(shown, lambda each: each.day)),
        by_query=_most_shown(by_query, settings),
        queries=len(by_query),
        never_taken=_never_taken(shown, by_query, settings),
        position_bias=estimate_position_bias(shown),
        set_aside={str(reason): n for reason, n in feedback.set_aside.items() if n},
        settings=settings,
    )


def _lists_by(
    shown: Iterable[Impression], key: Callable[[Impression], str]
) -> dict[str, AcceptanceCount]:
    counts: defaultdict[str, AcceptanceCount] = defaultdict(AcceptanceCount)
    for each in shown:
        counts[key(each)].add(each.visitor, taken=bool(each.taken), dismissed=each.dismissed)
    return counts


def _places_by(
    shown: Iterable[Impression], key: Callable[[Impression, int], Key]
) -> dict[Key, AcceptanceCount]:
    counts: defaultdict[Key, AcceptanceCount] = defaultdict(AcceptanceCount)
    for each in shown:
        for place in range(len(each.suggestions)):
            taken = place in each.taken
            counts[key(each, place)].add(each.visitor, taken=taken, dismissed=each.dismissed)
    return counts


def _sorted(counts: Mapping[Key, AcceptanceCount]) -> dict[Key, Acceptance]:
    return {key: counts[key].acceptance() for key in sorted(counts)}


def _most_shown(
    by_query: Mapping[str, AcceptanceCount], settings: ReportSettings
) -> dict[str, Acceptance]:
    known = [query for query, count in by_query.items() if count.visitors >= settings.min_visitors]
    order = sorted(known, key=lambda query: (-by_query[query].shown, query))
    return {query: by_query[query].acceptance() for query in order[: settings.queries]}


def _never_taken(
    shown: Sequence[Impression],
    by_query: Mapping[str, AcceptanceCount],
    settings: ReportSettings,
) -> tuple[NeverTaken, ...]:
    often = {
        query: found
        for query, count in by_query.items()
        if count.shown >= settings.min_shown and count.visitors >= settings.min_visitors
        for found in [count.acceptance()]
        if not found.taken
    }
    order = sorted(often, key=lambda query: (-often[query].shown, query))[: settings.queries]
    texts: dict[str, Counter[str]] = {query: Counter() for query in order}
    for each in shown:
        if each.query in texts:
            texts[each.query].update(item.text for item in each.suggestions)
    return tuple(
        NeverTaken(query, often[query], tuple(_most_common(texts[query], 5))) for query in order
    )


def _most_common(counts: Counter[str], n: int) -> list[str]:
    return sorted(counts, key=lambda text: (-counts[text], text))[:n]


def flooded(report: FeedbackReport) -> float:
    """The share of all lists that the bounds set aside."""
    bounded = sum(report.set_aside.get(str(why), 0) for why in (SetAside.VISITOR, SetAside.ORIGIN))
    return bounded / (bounded + report.lists.shown)
