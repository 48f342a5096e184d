"""Where the topics of a study come from, and the session that leads to each of them.

A topic is a query; its contexts are those of the test sessions that end exactly in it, as in the
paper. A query with three contexts is shown three times, once with each.
Knows files and prepared data; knows no model.
"""

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.normalise import normalise_query
from nextquery.plain_files import read_plain_text


@dataclass(frozen=True)
class Topic:
    """A query to suggest for, what it is about, and the queries before it, oldest first."""

    query: str
    description: str = ""
    context: tuple[str, ...] = ()


def read_topics(path: Path) -> list[Topic]:
    """Topics of a TREC file (XML), a CSV with a column `query`, or text with one per line."""
    try:
        text = read_plain_text(path, "utf-8-sig")
    except OSError as error:
        raise InputError(f"`topics` {path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"`topics` {path}: not UTF-8 text") from None
    if text.lstrip().startswith("<"):
        topics = _from_trec(path, text)
    elif path.suffix.lower() == ".csv":
        topics = _from_csv(path, text)
    else:
        topics = [Topic(line.strip()) for line in text.splitlines() if line.strip()]
    if not topics:
        raise InputError(f"`topics` {path}: has no topic")
    return _distinct(topics)


def sample_topics(data: PreparedData, count: int, seed: int) -> list[Topic]:
    """`count` test sessions drawn by seed: the last query is the topic, the others its context."""
    sessions = list(data.sessions("test"))
    random.Random(seed).shuffle(sessions)
    topics = _distinct([Topic(s.queries[-1], context=s.queries[:-1]) for s in sessions])
    if len(topics) < count:
        raise InputError(f"`sample` {count}: the test split has only {len(topics)} distinct topics")
    return topics[:count]


def add_contexts(
    topics: Sequence[Topic], data: PreparedData, max_contexts: int | None = None, seed: int = 1
) -> list[Topic]:
    """Each topic once per distinct context of the test sessions that end in it.

    A topic in which no session ends stays without a context. With `max_contexts` no more than that
    are drawn, by seed, for a topic that has more.
    """
    wanted = {normalise_query(topic.query) for topic in topics}
    contexts: dict[str, set[tuple[str, ...]]] = {}
    for session in data.sessions("test"):
        *context, last = session.queries
        if last in wanted and context:
            contexts.setdefault(last, set()).add(tuple(context))
    draw = random.Random(seed)
    return [
        Topic(topic.query, topic.description, context)
        for topic in topics
        for context in _chosen(contexts.get(normalise_query(topic.query), {()}), max_contexts, draw)
    ]


def _chosen(
    contexts: set[tuple[str, ...]], at_most: int | None, draw: random.Random
) -> list[tuple[str, ...]]:
    found = sorted(contexts)
    if at_most is None or len(found) <= at_most:
        return found
    return sorted(draw.sample(found, at_most))


def _from_trec(path: Path, text: str) -> list[Topic]:
    if "<!ENTITY" in text:
        raise InputError(f"`topics` {path}: XML entities are not accepted")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"`topics` {path}: not well-formed XML ({error})") from None
    return [
        Topic(_words(element.findtext("query")), _words(element.findtext("description")))
        for element in root.iter("topic")
        if _words(element.findtext("query"))
    ]


def _from_csv(path: Path, text: str) -> list[Topic]:
    rows = csv.DictReader(text.splitlines())
    try:
        if "query" not in (rows.fieldnames or ()):
            raise InputError(f"`topics` {path}: a CSV needs a header with a column 'query'")
        return [
            Topic(_words(row["query"]), _words(row.get("description")))
            for row in rows
            if _words(row["query"])
        ]
    except csv.Error as error:
        raise InputError(f"`topics` {path}, line {rows.line_num}: {error}") from None


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def _distinct(topics: Sequence[Topic]) -> list[Topic]:
    """The topics whose normalised query has not come before and is not empty."""
    kept: dict[str, Topic] = {}
    for topic in topics:
        key = normalise_query(topic.query)
        if key:
            kept.setdefault(key, topic)
    return list(kept.values())
