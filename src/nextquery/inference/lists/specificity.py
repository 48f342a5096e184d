"""Ranking by what the session adds to a query, not by what people type after anything.

    value(q) = log P(q | session) - specificity * log P(q | no session)  [+ 1 if q is known]

The last term only where known queries are preferred. A word that the vocabulary lacks, copied from
the session, is one of many behind the unknown word: without a session it is given that word's
probability divided by the size of the vocabulary. Knows finished queries and a scorer; knows
nothing of search.
"""

import math
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from nextquery.inference.beam import FinishedQuery
from nextquery.inference.settings import KNOWN_BONUS, DecodeConfig
from nextquery.records import ScoredQuery

_KEPT = 65_536

BELOW = 1e-6
"""What is put behind a list is valued so much below its last, lest a tie changes the order."""


class Priors:
    """The log-likelihood of queries without a session, kept for those asked for of late.

    It does not depend on the session, so that much of a list is known from earlier ones. Several
    threads may ask at once: at worst a prior is computed twice.
    """

    def __init__(self, score: Callable[[Sequence[str]], Sequence[ScoredQuery]], words: int) -> None:
        self._score = score
        self._unknown = math.log(words)
        self._kept: dict[str, float] = {}
        self._keeping = threading.Lock()

    def of(self, texts: Iterable[str]) -> dict[str, float]:
        """The prior of each text."""
        wanted = dict.fromkeys(texts)
        found = {text: prior for text in wanted if (prior := self._kept.get(text)) is not None}
        missing = [text for text in wanted if text not in found]
        if missing:
            new = {each.text: self._prior(each) for each in self._score(missing)}
            found |= new
            self._keep(new)
        return found

    def _keep(self, new: dict[str, float]) -> None:
        with self._keeping:
            self._kept.update(new)
            for oldest in list(self._kept)[: max(0, len(self._kept) - _KEPT)]:
                del self._kept[oldest]

    def _prior(self, scored: ScoredQuery) -> float:
        return scored.log_likelihood - self._unknown * len(scored.unknown)


def rank(
    found: Iterable[FinishedQuery],
    config: DecodeConfig,
    priors: Mapping[str, float],
    known: Container[str],
) -> list[FinishedQuery]:
    """The queries by their value, highest first, ties by text; priors may be left out at 0."""
    preferred = KNOWN_BONUS if config.known == "prefer" else 0.0
    adjusted = []
    for each in found:
        prior = priors.get(each.text)
        bonus = preferred if preferred and each.text in known else 0.0
        bonus -= config.specificity * (prior or 0.0)
        adjusted.append(replace(each, log_prior=prior, bonus=bonus))
    normalised = config.length_normalised
    return sorted(adjusted, key=lambda each: (-each.value(normalised), each.text))


def behind(
    found: Sequence[FinishedQuery], more: Sequence[FinishedQuery], config: DecodeConfig
) -> list[FinishedQuery]:
    """Both ranked lists one after the other, what is in both once; the second is valued below."""
    texts = {each.text for each in found}
    others = [each for each in more if each.text not in texts]
    if not found or not others:
        return [*found, *others]
    normalised = config.length_normalised
    gap = others[0].value(normalised) - found[-1].value(normalised)
    above = max(0.0, gap + BELOW)
    lowered = (
        replace(each, bonus=each.bonus - above * (each.symbols if normalised else 1))
        for each in others
    )
    return [*found, *lowered]
