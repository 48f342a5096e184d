"""How a visitor's text is read before a model is asked: spelling, then the site's synonyms.

A query that K users typed is taken as it is. Any other has its slips corrected and, if it is still
unknown, is replaced by a known form that the synonyms file gives. A half-typed query with few known
completions is also completed from beginnings one slip away or with a synonym. What the visitor
typed is never changed in sessions or logs.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
MOST_BEGINNINGS = 2
"""Similar beginnings that a model is asked to complete."""
_QUERIES_READ = 5
"""Older queries of a session are taken as they were typed."""
_SHORTEST_SLIP = 3
"""Shorter words have too many neighbours."""
_MOST_CANDIDATES, _MOST_QUERIES = 60, 300
"""Similar beginnings that are looked up, and known queries that are read of each."""
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
        for phrase, others in _rules(line, f"{path}: line {number}"):
            known = forms.setdefault(phrase, {})
            known.update(dict.fromkeys(other for other in others if other != phrase))
            if len(known) > _MOST_FORMS:
                raise InputError(
                    f"{path}: line {number}: {' '.join(phrase)!r} has more than {_MOST_FORMS} "
                    "synonyms; use a rule with =>"
                )
    if not forms:
        raise InputError(f"{path}: has no synonyms; write lines such as 'tv, television'")
    return Synonyms({phrase: tuple(others) for phrase, others in forms.items()})


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
class Beginning:
    """Another beginning that may stand for what is typed."""

    text: str
    slip: bool
    """Whether what is typed would have a slip; otherwise it has a synonym."""


class QueryRewriter:
    """Reads queries and beginnings of queries for the models of one folder.

    Its methods change nothing, so that several threads may call them.
    """

    def __init__(self, guard: Guard, synonyms: Synonyms | None = None) -> None:
        self._guard = guard
        self._known = guard.tables.queries
        self._synonyms = synonyms
        self._speller = QuerySpeller(guard)
        if self._speller.enabled:
            _ = self._speller.words  # sorted now rather than for the first visitor

    def context(self, queries: Sequence[str]) -> ReadContext:
        """The last queries of a session corrected and, where that makes them known, replaced."""
        read = list(queries)
        correction = None
        for place in range(max(0, len(read) - _QUERIES_READ), len(read)):
            query = normalise_query(read[place])
            correction = self._speller.correct(query)
            if correction is not None:
                query = read[place] = correction.text
            if self._synonyms is not None and query not in self._known:
                read[place] = self._known_form(query) or read[place]
        return ReadContext(tuple(read), correction)

    def _known_form(self, query: str) -> str | None:
        """The most frequent query that synonyms make, or else one of which all words are known."""
        assert self._synonyms is not None
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

    def beginnings(self, prefix: str, found: Sequence[Suggestion], n: int) -> list[Beginning]:
        """Other beginnings to complete, best first, where `found` has few known queries.

        First those with a synonym for what is typed, then the most frequent ones a slip away.
        """
        known = sum(item.text in self._known for item in found)
        typed = normalise_query(prefix)
        if not typed or known >= n:
            return []
        open_word = not prefix[-1].isspace()
        end = "" if open_word else " "
        others: dict[str, Beginning] = {}
        if self._synonyms is not None:
            variants = islice(self._synonyms.variants(typed), _MOST_VARIANTS)
            for text in self._frequent(text + end for text in variants):
                others[text] = Beginning(text, slip=False)
        if known < min(n, FEW) and self._speller.enabled:
            near = islice(self._one_slip(typed, open_word), _MOST_CANDIDATES)
            for text in self._frequent(text + end for text in near):
                others.setdefault(text, Beginning(text, slip=True))
        return list(others.values())[:MOST_BEGINNINGS]

    def _one_slip(self, typed: str, open_word: bool) -> Iterator[str]:
        """What is typed with one slip undone: in its last word first, then from the beginning."""
        words = typed.split(" ")
        places = [len(words) - 1, *range(len(words) - 1)]
        for place in places:
            word = words[place]
            if len(word) < _SHORTEST_SLIP:
                continue
            whole = place < len(words) - 1 or not open_word
            for other in slips(self._speller.words, word):
                if whole and other not in self._guard.tables.words:
                    continue
                yield " ".join((*words[:place], other, *words[place + 1 :]))

    def _frequent(self, beginnings: Iterable[str]) -> list[str]:
        """The beginnings of known queries, those of the most frequent queries first."""
        weighed = []
        for beginning in dict.fromkeys(beginnings):
            items = islice(self._known.iteritems(beginning), _MOST_QUERIES)
            total = sum(count for _, (count,) in items)
            if total:
                weighed.append((-total, beginning))
        return [beginning for _, beginning in heapq.nsmallest(MOST_BEGINNINGS, weighed)]

    def merge(
        self,
        found: Sequence[Suggestion],
        more: Sequence[Sequence[Suggestion]],
        n: int,
    ) -> list[Suggestion]:
        """Known completions of what is typed, then those of other beginnings, then the rest."""
        groups = [[item for item in found if item.text in self._known]]
        groups += [[item for item in items if item.text in self._known] for items in more]
        groups.append(list(found))
        merged = {item.text: item for items in reversed(groups) for item in reversed(items)}
        order = dict.fromkeys(item.text for items in groups for item in items)
        return [merged[text] for text in order][:n]

    def corrected_prefix(
        self, prefix: str, found: Sequence[Suggestion], others: Sequence[Beginning]
    ) -> Correction | None:
        """What a completion says was corrected: nothing known begins as typed."""
        if not others or not others[0].slip or any(item.text in self._known for item in found):
            return None
        typed, text = normalise_query(prefix), others[0].text.rstrip()
        pairs = zip(typed.split(" "), text.split(" "), strict=False)
        return Correction(typed, text, tuple((old, new) for old, new in pairs if old != new))


def complete(
    ask: Callable[[str], list[Suggestion]], rewriter: QueryRewriter, prefix: str, n: int
) -> tuple[list[Suggestion], Correction | None]:
    """The completions that `ask` gives for `prefix` and, if they are few, for similar ones."""
    found = ask(prefix)
    others = rewriter.beginnings(prefix, found, n)
    if not others:
        return found, None
    more = [ask(other.text) for other in others]
    return rewriter.merge(found, more, n), rewriter.corrected_prefix(prefix, found, others)
