"""What to show where a count model has nothing: queries of the same words, else frequent ones.

For people who try a model on a small log; models are compared without it.
"""

from collections.abc import Iterator, Sequence
from math import log
from typing import Any

import numpy as np

from nextquery.records import Suggestion
from nextquery.suggesters.background import Background
from nextquery.suggesters.count_suggester import CountSuggester, clean, seen

LOOKED_AT = 50_000
"""So many of the most frequent queries are looked through: a twentieth of a second."""


def fall_back(model: CountSuggester[Any], context: Sequence[str], n: int) -> list[Suggestion]:
    """At most `n` queries that share words with the last one, or the most frequent if none does.

    Each says in its `source` that it is no answer of the model. The score is the logarithm of the
    query's frequency, and for shared words also of the share of words: rare words weigh more.
    """
    queries = clean(context)
    related = sorted(_related(model.background, queries), key=lambda item: (-item.score, item.text))
    return _shown(model, related, queries, n) or _shown(
        model, _frequent(model.background), queries, n
    )


def _shown(
    model: CountSuggester[Any], found: Sequence[Suggestion], queries: Sequence[str], n: int
) -> list[Suggestion]:
    """The first `n` that are not in the session and that the guard allows."""
    kept: list[Suggestion] = []
    for item in found:
        if len(kept) == n:
            break
        if item.text not in queries and model.guard.allows(item.text):
            kept.append(item)
    return kept


def _most_frequent(background: Background) -> Iterator[tuple[str, int]]:
    order = np.argsort(-np.asarray(background.counts), kind="stable")[:LOOKED_AT]
    for query in order.tolist():
        yield background.text(query), int(background.counts[query])


def _related(background: Background, queries: Sequence[str]) -> Iterator[Suggestion]:
    asked = set(queries[-1].split()) if queries else set()
    known = {word for word in asked if word in background.words}
    if not known:
        return
    for text, count in _most_frequent(background):
        words = set(text.split())
        if shared := known & words:
            share = _weight(background, shared) / _weight(background, known | words)
            score = background.log_prior(text) + log(share)
            yield Suggestion(text, score, f"shares words with the last query; {seen(count)}")


def _weight(background: Background, words: set[str]) -> float:
    """The sum of `log(all words / count)`: a word that is everywhere says little."""
    counts = (int(background.word_counts[background.words[word]]) for word in words)
    return sum(log(background.symbols / count) for count in counts)


def _frequent(background: Background) -> list[Suggestion]:
    return [
        Suggestion(
            text, background.log_prior(text), f"frequent, whatever came before; {seen(count)}"
        )
        for text, count in _most_frequent(background)
    ]
