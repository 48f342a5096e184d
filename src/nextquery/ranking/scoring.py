"""The scores of any suggester for the candidates of many cases, in four forms.

A suggester that scores many contexts at once (`score_many`) is given them in batches; a context
that several cases share is given once.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nextquery.errors import InputError
from nextquery.normalise import normalise_query
from nextquery.ranking.cases import CaseSet, Floats, Integers
from nextquery.records import ScoredQuery
from nextquery.suggesters.base import BatchScorer, Scorer
from nextquery.suggesters.count_suggester import CountSuggester

BATCH = 256
LOWEST = -1000.0
"""Stands for the log of zero where a finite number is needed."""

FORMS = ("sum", "per_word", "lift", "share")
"""The log-likelihood; the same per predicted symbol; what the context adds to it, which is
log P(candidate | context) - log P(candidate | no context); and the log of the candidate's share of
the likelihood of all candidates of its case, which frees trees from the level of each context."""

EARLIER = "earlier_"
"""Begins the name of a form of a score that is given the earlier queries, too."""

Context = tuple[str, ...]
Track = Callable[[range], Iterable[int]]
"""Passes on the batches' starts and shows how far they are."""


@dataclass(frozen=True)
class CaseScores:
    """A suggester's scores of all candidates of a case set, flat."""

    log_likelihood: Floats
    words: Floats
    without_context: Floats
    owners: Integers
    """The number of the case that each candidate belongs to."""

    def form(self, name: str) -> Floats:
        """One of `FORMS`, finite."""
        if name == "per_word":
            return self.log_likelihood / np.maximum(self.words, 1.0)
        if name == "lift":
            return self.log_likelihood - self.without_context
        if name == "share":
            return _log_shares(self.log_likelihood, self.owners)
        return self.log_likelihood


class CaseScorer:
    """Scores cases with one suggester, which is asked for no score twice.

    Cases of new and of known visitors have most contexts and candidates in common.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._scored: dict[Context, dict[str, ScoredQuery]] = {}
        self._without_context: dict[str, float] = {}

    def score(self, cases: CaseSet, *, last: int | None = None, track: Track = iter) -> CaseScores:
        """Score the candidates of every case; with `last`, given only that many last queries."""
        rows = _score_candidates(self._scorer, cases, last, track, self._scored)
        new = dict.fromkeys(text for text in cases.texts if text not in self._without_context)
        if new:
            for text, scored in _score_all(self._scorer, {(): new}, iter)[()].items():
                self._without_context[text] = max(scored.log_likelihood, LOWEST)
        return CaseScores(
            _finite(rows),
            np.array([row.words for row in rows], dtype=np.float64),
            np.array([self._without_context[text] for text in cases.texts], dtype=np.float64),
            cases.owners,
        )


class FoldScorer:
    """Scores each case with the model of its user's fold, which has not seen the user."""

    def __init__(self, scorers: Sequence[CaseScorer]) -> None:
        self._scorers = tuple(scorers)

    def score(self, cases: CaseSet, *, last: int | None = None, track: Track = iter) -> CaseScores:
        """As `CaseScorer.score`."""
        likelihoods, words, without = np.zeros((3, cases.rows))
        parts = cases.split_by_fold(len(self._scorers))
        for scorer, (rows, part) in zip(self._scorers, parts, strict=True):
            scored = scorer.score(part, last=last, track=track)
            likelihoods[rows], words[rows] = scored.log_likelihood, scored.words
            without[rows] = scored.without_context
        return CaseScores(likelihoods, words, without, cases.owners)


def log_likelihoods(scorer: Scorer, cases: CaseSet, *, track: Track = iter) -> Floats:
    """The finite log-likelihood of all candidates of all cases, flat."""
    if isinstance(scorer, CountSuggester):
        return _counted(scorer, cases, track)
    return _finite(_score_candidates(scorer, cases, None, track, {}))


def _counted(model: CountSuggester[Any], cases: CaseSet, track: Track) -> Floats:
    """The same of a model that does not say which words it has."""
    texts = {text for case in cases for text in (*case.context, *case.candidates)}
    normal = {text: normalise_query(text) for text in texts}
    probabilities: list[float] = []
    for start in track(range(0, len(cases), BATCH)):
        for case in cases.cases[start : start + BATCH]:
            context = tuple(filter(None, (normal[query] for query in case.context)))
            candidates = [normal[text] for text in case.candidates]
            probabilities += model.log_probabilities(context, candidates)
    return np.maximum(np.array(probabilities, dtype=np.float64), LOWEST)


def _finite(rows: Sequence[ScoredQuery]) -> Floats:
    return np.array([max(row.log_likelihood, LOWEST) for row in rows], dtype=np.float64)


def _score_candidates(
    scorer: Scorer,
    cases: CaseSet,
    last: int | None,
    track: Track,
    scores_of: dict[Context, dict[str, ScoredQuery]],
) -> list[ScoredQuery]:
    """The scores of all candidates; those not in `scores_of` yet are computed and added to it."""
    to_score: dict[Context, dict[str, None]] = {}
    contexts = [case.context if last is None else case.context[-last:] for case in cases]
    for context, case in zip(contexts, cases, strict=True):
        known = scores_of.setdefault(context, {})
        missing = dict.fromkeys(text for text in case.candidates if text not in known)
        if missing:
            to_score.setdefault(context, {}).update(missing)
    for context, scores in _score_all(scorer, to_score, track).items():
        scores_of[context].update(scores)
    return [
        scores_of[context][text]
        for context, case in zip(contexts, cases, strict=True)
        for text in case.candidates
    ]


def _log_shares(values: Floats, owners: Integers) -> Floats:
    """The log of each value's exponential over the sum of those of the same case."""
    if not len(values):
        return values
    best = np.full(int(owners.max()) + 1, -np.inf)
    np.maximum.at(best, owners, values)
    totals = np.bincount(owners, weights=np.exp(values - best[owners]))
    shares: Floats = values - best[owners] - np.log(totals[owners])
    return shares


def _score_all(
    scorer: Scorer, to_score: dict[Context, dict[str, None]], track: Track
) -> dict[Context, dict[str, ScoredQuery]]:
    """Each context's candidates, scored in batches of contexts of like length."""
    contexts = sorted(to_score, key=lambda context: (len(context), context))
    scores_of = {}
    for start in track(range(0, len(contexts), BATCH)):
        batch = contexts[start : start + BATCH]
        lists = [list(to_score[context]) for context in batch]
        for context, scores in zip(batch, _score_batch(scorer, batch, lists), strict=True):
            scores_of[context] = {scored.text: scored for scored in scores}
    return scores_of


def _score_batch(
    scorer: Scorer, contexts: list[Context], lists: list[list[str]]
) -> list[list[ScoredQuery]]:
    if isinstance(scorer, BatchScorer):
        scores = scorer.score_many(contexts, lists)
        if len(scores) != len(contexts):
            raise InputError(
                f"{type(scorer).__name__}.score_many: gives {len(scores)} lists for "
                f"{len(contexts)} contexts; it must give one list for each"
            )
    else:
        pairs = zip(contexts, lists, strict=True)
        scores = [scorer.score(context, candidates) for context, candidates in pairs]
    for candidates, row in zip(lists, scores, strict=True):
        _check(scorer, candidates, row)
    return scores


def _check(scorer: Scorer, candidates: list[str], scores: object) -> None:
    """Refuse what is not one `ScoredQuery` per candidate, in the order of the candidates."""
    name = f"{type(scorer).__name__}.score"
    if not isinstance(scores, Sequence):
        raise InputError(f"{name}: gives a {type(scores).__name__}, not a list of ScoredQuery")
    if len(scores) != len(candidates):
        raise InputError(
            f"{name}: gives {len(scores)} scores for {len(candidates)} candidates; "
            "it must give one for each, in the same order"
        )
    for text, scored in zip(candidates, scores, strict=True):
        if not isinstance(scored, ScoredQuery):
            raise InputError(
                f"{name}: gives a {type(scored).__name__} for {text!r}; it must give "
                "ScoredQuery(text, log_likelihood, words) of nextquery.records"
            )
        if scored.text != text:
            raise InputError(
                f"{name}: gives the score of {scored.text!r} in the place of {text!r}; "
                "scores must have the texts and the order of the candidates"
            )
        if math.isnan(scored.log_likelihood) or scored.log_likelihood == math.inf:
            raise InputError(
                f"{name}: the log-likelihood of {text!r} is {scored.log_likelihood}; "
                "it must be a number, or -inf for an impossible candidate"
            )
