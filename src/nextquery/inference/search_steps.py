"""The steps of a beam search: one more word for every prefix, what ends, and what goes on.

`ArraySteps` asks any decoder step by step, in NumPy; the compiled kernels do a whole step in one
call (`kernels/native_search.py`) and are held to this by tests. Knows decoder and rules; knows
nothing of the queries that were found.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from nextquery.inference.extensions import (
    Extensions,
    LivePrefixes,
    Totals,
    allowed_extensions,
    among,
)
from nextquery.inference.lists.known_queries import KnownQueries
from nextquery.inference.network.prediction import Decoder, Ended, Prediction, SearchStart
from nextquery.inference.rules import Flags, Ids
from nextquery.inference.settings import DecodeConfig
from nextquery.text.vocabulary import END_OF_QUERY


class ArraySteps:
    """The steps of a search with a decoder that is asked for predictions."""

    def __init__(
        self, decoder: Decoder, start: SearchStart, config: DecodeConfig, known: KnownQueries | None
    ) -> None:
        self._decoder, self._config, self._known = decoder, config, known
        self._batch, self._rules, self._prefixes, self._live = start
        self._extensions: Extensions | None = None

    def next(self, bounds: Sequence[float]) -> Iterable[Ended] | None:
        """What ends in the next step, None if no prefix is left.

        Prefixes that are no likelier than the bound of their context are given up before it.
        """
        if self._extensions is not None:
            self._go_on(self._extensions, np.array(bounds))
        if not len(self._live):
            return None
        prediction = self._decoder.predict(self._batch, self._prefixes)
        self._extensions = self._extended(prediction)
        return self._ended(self._extensions)

    def _extended(self, prediction: Prediction) -> Extensions:
        """The best allowed extensions of every context."""
        live = self._live
        if self._known is not None:
            return self._known_extensions(self._known, prediction)
        if live.length < self._config.max_words:
            return allowed_extensions(prediction, live, self._config.beam, self._rules)
        ends = np.full(len(live), END_OF_QUERY)
        totals = prediction.end + live.totals
        order = np.lexsort((-totals, live.contexts))
        first = np.searchsorted(live.contexts, np.arange(len(self._rules) + 1))
        return Extensions(first, order, ends, totals[order])

    def _known_extensions(self, known: KnownQueries, prediction: Prediction) -> Extensions:
        """All words that bring a live prefix nearer to a known query."""
        parts, live = [], self._live
        for context, rows in live.parts():
            prefixes = [tuple(words) for words in live.words[rows].tolist()]
            following = [known.next_words(prefix) for prefix in prefixes]
            if live.length >= self._config.max_words:
                following = [words[words == END_OF_QUERY] for words in following]
            found = among(prediction, rows, live.totals[rows], following)
            free = ~self._rules[context].refused(prefixes, found[0], found[1])
            parts.append((context, (found[0][free] + rows.start, found[1][free], found[2][free])))
        return self._cut(Extensions.joined(len(self._rules), parts))

    def _cut(self, extensions: Extensions) -> Extensions:
        """Of each context no more than the beam holds, and what ends above the last of them."""
        going = np.cumsum(extensions.words != END_OF_QUERY)
        counts = np.diff(extensions.first)
        before = np.repeat(np.concatenate([[0], going])[extensions.first[:-1]], counts)
        ends = extensions.words == END_OF_QUERY
        return _only(extensions, going - before + ends <= self._config.beam)

    def _ended(self, extensions: Extensions) -> Iterable[Ended]:
        live = self._live
        if live.length < self._config.min_words:
            return ()
        ends = np.flatnonzero(extensions.words == END_OF_QUERY)
        rows = extensions.rows[ends]
        columns = live.contexts[rows], live.words[rows], extensions.totals[ends]
        return map(Ended, *(column.tolist() for column in columns))

    def _go_on(self, extensions: Extensions, bounds: Totals) -> None:
        """What goes on and is not hopeless, each with its word."""
        live = self._live
        contexts = live.contexts[extensions.rows]
        going = (extensions.words != END_OF_QUERY) & (extensions.totals > bounds[contexts])
        parents, words = extensions.rows[going], extensions.words[going]
        longer = np.concatenate([live.words[parents], words[:, None]], axis=1)
        self._live = LivePrefixes(longer, extensions.totals[going], contexts[going])
        if len(words):
            self._prefixes = self._decoder.advance(self._batch, self._prefixes, parents, words)


def _only(extensions: Extensions, kept: Flags) -> Extensions:
    """Some of them."""
    counts: Ids = np.concatenate([[0], np.cumsum(kept)])
    return Extensions(
        counts[extensions.first],
        extensions.rows[kept],
        extensions.words[kept],
        extensions.totals[kept],
    )
