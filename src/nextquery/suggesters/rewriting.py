"""How a visitor's text is read before a model is asked: spelling, then the site's synonyms.

A query that K users typed is taken as it is. Any other has its slips corrected and, if it is still
unknown, is replaced by a known form that the synonyms file gives. A half-typed query with few known
completions is also completed from beginnings one slip away or with a synonym. What the visitor
typed is never changed in sessions or logs.
"""

import math
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from nextquery.artifacts.files import read_plain_text
from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.guard.spelling import QuerySpeller, slips
from nextquery.normalise import normalise_query
from nextquery.records import Correction, Suggestion

FEW = 3
"""With fewer known completions, those of similar beginnings are looked for, too."""
_QUERIES_READ = 5
"""Older queries of a session are taken as they were typed."""
_SHORTEST_SLIP = 3
"""Shorter words have too many neighbours."""
_MOST_CANDIDATES, _MOST_QUERIES = 60, 2000
"""Similar beginnings that are looked up, and known queries that are read of all of them."""
MOST_LINES, _MOST_FORMS, _MOST_VARIANTS = 100_000, 50, 20
_ARROW = re.compile(r"(?<!\\)=>")
_COMMA = re.compile(r"(?<!\\),")

Phrase = tuple[str, ...]


class Synonyms:
    """Phrases with the phrases that may replace them."""

    def __init__(self, forms: dict[Phrase, tuple[Phrase, ...]]) -> None:
        self._forms = forms
        self._longest = max(map(len, forms), default=0)

    def __len__(self) -> int:
        return len(self._forms)

    def variants(self, query: str) -> Iterator[str]:
        """Normalised `query` with one phrase replaced, in the order of words and of the file.

        >>> forms = {("tv",): (("television",),), ("new", "york"): (("nyc",),)}
        >>> list(Synonyms(forms).variants("new york tv"))
        ['nyc tv', 'new york television']
        """
        words = tuple(query.split())
        for start in range(len(words)):
            for length in range(min(self._longest, len(words) - start), 0, -1):
                stop = start + length
                for form in self._forms.get(words[start:stop], ()):
                    yield " ".join((*words[:start], *form, *words[stop:]))


def read_synonyms(path: Path) -> Synonyms:
    """Read a file in Solr's format, as Elasticsearch and OpenSearch take it.

    `a, b, c` makes all of them replace each other, `a, b => c` replaces only towards the right;
    `#` begins a comment; a backslash keeps a comma or an arrow.
    """
    try:
        text = read_plain_text(path, "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from None
    forms: dict[Phrase, dict[Phrase, None]] = {}
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        raise InputError(f"{path}: has {len(lines):,} lines; at most {MOST_LINES:,} are read")
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        for phrase, synonyms in _rules(line, f"{path}: line {number}"):
            replacements = forms.setdefault(phrase, {})
            replacements.update(dict.fromkeys(other for other in synonyms if other != phrase))
            if len(replacements) > _MOST_FORMS:
                raise InputError(
                    f"{path}: line {number}: {' '.join(phrase)!r} has more than {_MOST_FORMS} "
                    "synonyms; use a rule with =>"
                )
    if not forms:
        raise InputError(f"{path}: has no synonyms; write lines such as 'tv, television'")
    return Synonyms({phrase: tuple(synonyms) for phrase, synonyms in forms.items()})


def _rules(line: str, where: str) -> Iterator[tuple[Phrase, list[Phrase]]]:
    sides = _ARROW.split(line)
    if len(sides) > 2:
        raise InputError(f"{where}: has more than one =>; write one rule per line")
    left, right = (_phrases(side, where) for side in (sides[0], sides[-1]))
    if len(sides) == 1 and len(left) < 2:
        raise InputError(f"{where}: has one phrase; write 'tv, television' or 'tv => television'")
    for phrase in left:
        yield phrase, right


def _phrases(side: str, where: str) -> list[Phrase]:
    phrases: list[Phrase] = []
    for part in _COMMA.split(side):
        phrase = tuple(normalise_query(re.sub(r"\\(.)", r"\1", part)).split())
        if not phrase:
            raise InputError(f"{where}: a synonym is empty; remove the comma or arrow next to it")
        phrases.append(phrase)
    return phrases


@dataclass(frozen=True)
class ReadContext:
    """A session as a model is asked about it."""

    queries: tuple[str, ...]
    correction: Correction | None = None
    """What was changed in the last query."""


@dataclass(frozen=True)
class Completions:
    """Completions, and what was corrected if nothing known begins as typed."""

    items: tuple[Suggestion, ...]
    correction: Correction | None = None


class QueryRewriter:
    """Reads queries and beginnings of queries for the models of one folder.

    Its methods change nothing, so that several threads may call them.
    """

    def __init__(self, guard: Guard, synonyms: Synonyms | None = None) -> None:
        self._guard = guard
        self._known = guard.tables.queries
        self._synonyms = synonyms or Synonyms({})
        self._speller = QuerySpeller(guard)
        if self._speller.enabled:
            _ = self._speller.words, self._searches  # now rather than for the first visitor

    def context(self, queries: Sequence[str]) -> ReadContext:
        """The last queries of a session corrected and, where that makes them known, replaced."""
        read = list(queries)
        correction = None
        for index in range(max(0, len(read) - _QUERIES_READ), len(read)):
            query = normalise_query(read[index])
            correction = self._speller.correct(query)
            if correction is not None:
                query = read[index] = correction.text
            if query not in self._known:
                read[index] = self._known_form(query) or read[index]
        return ReadContext(tuple(read), correction)

    def _known_form(self, query: str) -> str | None:
        """The most frequent query that synonyms make, or else one of which all words are known."""
        variants = list(islice(self._synonyms.variants(query), _MOST_VARIANTS))
        best = max(variants, key=self._guard.tables.count, default=None)
        if best is None or best in self._known:
            return best
        words = self._guard.tables.words
        if all(word in words for word in query.split()):
            return None  # the model can read it as it is
        return next(
            (text for text in variants if all(word in words for word in text.split())), None
        )

    def complete(
        self, context: Sequence[str], prefix: str, completions: Sequence[Suggestion], n: int
    ) -> Completions:
        """The `completions` of a model, with known queries that begin similarly.

        Where there are too few known ones, queries that begin with a synonym of what is typed are
        added, most frequent first; where there are very few, also those one slip away. What is
        known as typed comes first, and what the model made up comes last.
        """
        exact = [item for item in completions if item.text in self._known]
        typed = normalise_query(prefix)
        if not typed or len(exact) >= n:
            return Completions(tuple(completions))
        open_word = not prefix[-1].isspace()
        shown = {*map(normalise_query, context), *(item.text for item in exact)}
        variants = islice(self._synonyms.variants(typed), _MOST_VARIANTS)
        synonyms = self._most_frequent(variants, open_word, shown, n)
        near: list[_Known] = []
        if len(exact) < min(n, FEW) and self._speller.enabled:
            slipped = islice(self._one_slip(typed, open_word), _MOST_CANDIDATES)
            near = self._most_frequent(slipped, open_word, shown, n)
        added = {known.text: known for known in (*synonyms, *near)}
        items = [*exact]
        for known in added.values():
            # A list is in the order of its scores.
            score = math.log(known.count / self._searches)
            score = min(score, items[-1].score) if items else score
            items.append(Suggestion(known.text, score, self._guard.source(known.text)))
        items += [item for item in completions if item.text not in {item.text for item in items}]
        correction = None
        if near and not exact and not synonyms:
            beginning = near[0].beginning
            pairs = zip(typed.split(" "), beginning.split(" "), strict=False)
            changed = tuple((old, new) for old, new in pairs if old != new)
            correction = Correction(typed, beginning, changed)
        return Completions(tuple(items[:n]), correction)

    @cached_property
    def _searches(self) -> int:
        """How often all known queries were typed."""
        return max(1, sum(int(count) for _, (count,) in self._known.iteritems()))

    def _one_slip(self, typed: str, open_word: bool) -> Iterator[str]:
        """What is typed with one slip undone: in its last word first, then from the beginning."""
        words = typed.split(" ")
        order = [len(words) - 1, *range(len(words) - 1)]
        for index in order:
            word = words[index]
            if len(word) < _SHORTEST_SLIP:
                continue
            is_complete = index < len(words) - 1 or not open_word
            for other in slips(self._speller.words, word):
                if is_complete and other not in self._guard.tables.words:
                    continue
                yield " ".join((*words[:index], other, *words[index + 1 :]))

    def _most_frequent(
        self, beginnings: Iterable[str], open_word: bool, shown: Container[str], n: int
    ) -> "list[_Known]":
        """The most frequent known queries with one of the beginnings that may be shown."""
        results: dict[str, _Known] = {}
        left = _MOST_QUERIES
        for beginning in dict.fromkeys(beginnings):
            start = beginning if open_word else f"{beginning} "
            for text, (count,) in islice(self._known.iteritems(start), left):
                left -= 1
                results.setdefault(text, _Known(text, count, beginning))
        ordered = sorted(results.values(), key=lambda known: (-known.count, known.text))
        allowed = (query for query in ordered if query.text not in shown)
        return list(islice((query for query in allowed if self._guard.allows(query.text)), n))


@dataclass(frozen=True)
class _Known:
    """A known query that begins similarly to what is typed."""

    text: str
    count: int
    beginning: str
