"""The pool of a study: its topics, its models, what is shown, the key kept apart, and judgements.

One SQLite file holds the assessors with their tokens and every judgement ever made; an undo is a
judgement too, so nothing is ever overwritten.
"""

import csv
import hashlib
import json
import random
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

from pydantic import TypeAdapter

from nextquery.artifacts import check_target, open_artifact, publish, write_text
from nextquery.artifacts.files import read_plain_text
from nextquery.errors import ArtifactError, InputError
from nextquery.inference.settings import override
from nextquery.logs.data_folder import PreparedData
from nextquery.normalise import normalise_query
from nextquery.study import StudySettings
from nextquery.suggesters.base import Adjustable, Decoding, Suggester
from nextquery.suggesters.loading import load


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
    topics: Sequence[Topic],
    data: PreparedData,
    max_contexts: int | None = None,
    seed: int = StudySettings.seed,
) -> list[Topic]:
    """Each topic once per distinct context of the test sessions that end in it.

    A topic in which no session ends stays without a context. With `max_contexts` no more than that
    are drawn, by seed, for a topic that has more.
    """
    queries = {normalise_query(topic.query) for topic in topics}
    contexts: dict[str, set[tuple[str, ...]]] = {}
    for session in data.sessions("test"):
        *context, last = session.queries
        if last in queries and context:
            contexts.setdefault(last, set()).add(tuple(context))
    draw = random.Random(seed)

    def chosen(topic: Topic) -> list[tuple[str, ...]]:
        ordered = sorted(contexts.get(normalise_query(topic.query), {()}))
        if max_contexts is None or len(ordered) <= max_contexts:
            return ordered
        return sorted(draw.sample(ordered, max_contexts))

    return [
        Topic(topic.query, topic.description, context)
        for topic in topics
        for context in chosen(topic)
    ]


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
    by_query: dict[str, Topic] = {}
    for topic in topics:
        key = normalise_query(topic.query)
        if key:
            by_query.setdefault(key, topic)
    return list(by_query.values())


SPECIFICITY = "specificity"


def open_models(
    folders: Mapping[str, Path], settings: Mapping[str, Sequence[str]]
) -> dict[str, Suggester]:
    """The models by name; `settings` are `key=value` texts for some of the names."""
    unknown = settings.keys() - folders.keys()
    if unknown:
        raise InputError(f"`decode` {min(unknown)}: no model has this name")
    models = {name: load(folder) for name, folder in folders.items()}
    for name, texts in settings.items():
        set_decoding(models[name], texts)
    return models


def set_decoding(model: Suggester, settings: Sequence[str]) -> None:
    """Let a model suggest under other settings; a count model has its specificity."""
    if isinstance(model, Decoding):
        model.config = override(model.config, {}, settings)
        return
    keys = [text.partition("=")[0] for text in settings]
    if not isinstance(model, Adjustable) or keys != [SPECIFICITY] * len(keys):
        raise InputError(f"`decode` {' '.join(settings)}: a {model.kind} model takes {SPECIFICITY}")
    for text in settings:
        model.specificity = _share(text)


def _share(text: str) -> float:
    try:
        value = float(text.partition("=")[2])
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise InputError(f"`decode` {text}: must be a number from 0 to 1")
    return value


POOL = "pool.json"
KEY = "key.json"
MAX_NAME_CHARACTERS = 80


@dataclass(frozen=True)
class Item:
    """One distinct suggestion of a topic; `id` is unique in the study."""

    id: int
    text: str


@dataclass(frozen=True)
class PooledTopic:
    """A topic with the distinct suggestions of all models together, in the order of their text."""

    id: int
    topic: Topic
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Pool:
    """Everything an assessor may see."""

    seed: int
    topics: tuple[PooledTopic, ...]

    def shuffled(self, assessor: int) -> tuple[PooledTopic, ...]:
        """The topics and their suggestions in this assessor's own order, the same every time."""
        draw = random.Random(f"{self.seed}/{assessor}")
        topics = [
            PooledTopic(t.id, t.topic, tuple(draw.sample(t.items, len(t.items))))
            for t in self.topics
            if t.items
        ]
        draw.shuffle(topics)
        return tuple(topics)


@dataclass(frozen=True)
class Key:
    """Which model gave which item: `given[model][topic id]` lists item ids, best rank first."""

    places: int
    given: Mapping[str, Mapping[int, tuple[int, ...]]]


def create_study(
    target: Path,
    topics: Sequence[Topic],
    models: Mapping[str, Suggester],
    places: int = StudySettings.places,
    seed: int = StudySettings.seed,
) -> Pool:
    """Ask every model for its top `places` on every topic and publish the study folder."""
    check_names(list(models))
    if (target / "judgements.sqlite").exists():
        raise ArtifactError(f"{target}: already has judgements; choose another `out`")
    check_target(target, "study")
    given: dict[str, dict[int, tuple[int, ...]]] = {name: {} for name in models}
    pooled: list[PooledTopic] = []
    next_item = 0
    for number, topic in enumerate(topics):
        session = [*topic.context, topic.query]
        lists = {
            name: list(dict.fromkeys(_text(item.text) for item in model.suggest(session, places)))
            for name, model in models.items()
        }
        texts = sorted({text for texts in lists.values() for text in texts})
        ids = {text: next_item + offset for offset, text in enumerate(texts)}
        next_item += len(texts)
        pooled.append(PooledTopic(number, topic, tuple(Item(ids[t], t) for t in texts)))
        for name, suggested in lists.items():
            given[name][number] = tuple(ids[text] for text in suggested)
    pool = Pool(seed, tuple(pooled))
    _write(target, pool, Key(places, given))
    return pool


def check_names(names: Sequence[str]) -> None:
    """Refuse names that no table or drawing of the report could show, and fewer than two."""
    if len(names) < 2:
        raise InputError("a study compares at least two models; give `model=NAME=FOLDER` twice")
    for name in names:
        # Not printable: control characters, marks that turn text around, bytes that are not text.
        if not name.isprintable() or not name.strip() or len(name) > MAX_NAME_CHARACTERS:
            raise InputError(
                f"`model` {name[:MAX_NAME_CHARACTERS]!a}: a name has 1 to "
                f"{MAX_NAME_CHARACTERS} printable characters"
            )


def read_pool(study: Path) -> Pool:
    """The pool of a study folder, without its key."""
    return TypeAdapter(Pool).validate_json(open_artifact(study, "study").file(POOL).read_bytes())


def read_key(study: Path) -> Key:
    """The key of a study folder."""
    return TypeAdapter(Key).validate_json(open_artifact(study, "study").file(KEY).read_bytes())


def _text(text: str) -> str:
    """The text with half characters (lone surrogates), which no file can hold, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _write(target: Path, pool: Pool, key: Key) -> None:
    entries = {
        "counts": {
            "topics": len(pool.topics),
            "with_context": sum(bool(t.topic.context) for t in pool.topics),
            "items": sum(len(t.items) for t in pool.topics),
            "models": len(key.given),
        },
        "settings": {"places": key.places, "seed": pool.seed},
    }
    with publish(target, "study", entries) as folder:
        # Contexts are sessions of single visitors: for the owner only.
        pooled = json.dumps(asdict(pool), ensure_ascii=False, indent=1)
        write_text(folder / POOL, pooled, mode=0o600)
        write_text(folder / KEY, json.dumps(asdict(key), ensure_ascii=False, indent=1))


USEFUL, SOMEWHAT, NOT_USEFUL = "useful", "somewhat useful", "not useful"
GRADES = {USEFUL: 2, SOMEWHAT: 1, NOT_USEFUL: 0}
FILE = "judgements.sqlite"
MOST_ASSESSORS = 10_000

_TABLES = """
CREATE TABLE IF NOT EXISTS assessors (
    number INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, browser TEXT);
CREATE TABLE IF NOT EXISTS judgements (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, assessor INTEGER NOT NULL, item INTEGER NOT NULL,
    value TEXT, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
"""
_BROWSER = "SELECT browser FROM assessors WHERE number = ?"
_CURRENT = """
SELECT assessor, item, value FROM judgements
WHERE sequence IN (SELECT MAX(sequence) FROM judgements GROUP BY assessor, item)
  AND value IS NOT NULL
"""


@dataclass(frozen=True)
class Judgement:
    """What an assessor thinks of an item now."""

    assessor: int
    item: int
    value: str


class JudgementStore:
    """The SQLite file of one study; every call is one transaction, safe across threads."""

    def __init__(self, study: Path) -> None:
        self.path = study / FILE
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_TABLES)

    def tokens(self, assessors: int) -> dict[int, str]:
        """The token of each assessor, numbered from 1; missing ones are made, none is changed."""
        if assessors < 1:
            raise InputError("`assessors`: at least 1")
        if assessors > MOST_ASSESSORS:
            raise InputError(f"`assessors` {assessors}: at most {MOST_ASSESSORS:,}")
        with self._connection() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO assessors (number, token) VALUES (?, ?)",
                [(number, secrets.token_urlsafe(24)) for number in range(1, assessors + 1)],
            )
            rows = connection.execute("SELECT number, token FROM assessors ORDER BY number")
            return dict(rows.fetchall())

    def assessors(self) -> list[int]:
        """The numbers of all assessors that have a link."""
        with self._connection() as connection:
            rows = connection.execute("SELECT number FROM assessors ORDER BY number").fetchall()
        return [int(number) for (number,) in rows]

    def assessor(self, token: str) -> int | None:
        """The assessor of a token, or None for a wrong one."""
        with self._connection() as connection:
            rows = connection.execute("SELECT number FROM assessors WHERE token = ?", (token,))
            row = rows.fetchone()
        return None if row is None else int(row[0])

    def admits(self, assessor: int, browser: str | None) -> bool:
        """Whether the link is open in this browser: nobody else has judged with it yet."""
        with self._connection() as connection:
            row = connection.execute(_BROWSER, (assessor,)).fetchone()
        return bool(row) and row[0] in (None, _digest(browser) if browser is not None else None)

    def claim(self, assessor: int, browser: str) -> bool:
        """Bind the assessor to the first browser that judges; False for any other browser."""
        digest = _digest(browser)
        with self._connection() as connection:
            connection.execute(
                "UPDATE assessors SET browser = ? WHERE number = ? AND browser IS NULL",
                (digest, assessor),
            )
            row = connection.execute(_BROWSER, (assessor,)).fetchone()
        return bool(row and row[0] == digest)

    def release(self, assessor: int) -> None:
        """Let the assessor's link be opened in another browser; the judgements stay."""
        if assessor not in self.assessors():
            raise InputError(f"`release` {assessor}: the study has no such assessor")
        with self._connection() as connection:
            connection.execute("UPDATE assessors SET browser = NULL WHERE number = ?", (assessor,))

    def judge(self, assessor: int, item: int, value: str | None) -> None:
        """Store a judgement, or with None take the current one back."""
        with self._connection() as connection:
            connection.execute(
                "INSERT INTO judgements (assessor, item, value) VALUES (?, ?, ?)",
                (assessor, item, value),
            )

    def current(self, assessor: int | None = None) -> list[Judgement]:
        """The judgements that stand, of one assessor or of all."""
        with self._connection() as connection:
            rows = connection.execute(_CURRENT + " ORDER BY sequence").fetchall()
        return [Judgement(*row) for row in rows if assessor in (None, row[0])]

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=30)
        try:
            # FULL: a commit returns only after the disk has it, also in WAL mode.
            connection.execute("PRAGMA synchronous=FULL")
            with connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise ArtifactError(
                f"{self.path}: the judgements cannot be read or written ({error}); look at the "
                "disk, or bring the file back from a copy"
            ) from error
        finally:
            connection.close()


def _digest(browser: str) -> str:
    return hashlib.sha256(browser.encode("utf-8", "surrogatepass")).hexdigest()
