"""The pool of a study: what is shown, and, apart from it, the key that says which model said it.

    STUDY/pool.json    topics, contexts and distinct suggestions; no model is named
    STUDY/key.json     which model gave which suggestion at which rank; only `report` reads it
    STUDY/judgements.sqlite    tokens and judgements, made by `serve`

Knows suggesters only by their protocol.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nextquery.artifacts import open_artifact, publish, write_text
from nextquery.errors import ArtifactError, InputError
from nextquery.study.topics import Topic
from nextquery.suggesters.base import Suggester

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
    places: int = 5,
    seed: int = 1,
) -> Pool:
    """Ask every model for its top `places` on every topic and publish the study folder."""
    check_names(list(models))
    if (target / "judgements.sqlite").exists():
        raise ArtifactError(f"{target}: already has judgements; choose another `out`")
    given: dict[str, dict[int, tuple[int, ...]]] = {name: {} for name in models}
    pooled: list[PooledTopic] = []
    next_item = 0
    for number, topic in enumerate(topics):
        lists = _ask(topic, models, places)
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
        # Not printable: control characters, marks that turn text around, bytes that are no text.
        if not name.isprintable() or not name.strip() or len(name) > MAX_NAME_CHARACTERS:
            raise InputError(
                f"`model` {name[:MAX_NAME_CHARACTERS]!a}: a name has 1 to "
                f"{MAX_NAME_CHARACTERS} printable characters"
            )


def read_pool(study: Path) -> Pool:
    """The pool of a study folder; the key stays closed."""
    values = json.loads(open_artifact(study, "study").file(POOL).read_text(encoding="utf-8"))
    return Pool(values["seed"], tuple(_topic(value) for value in values["topics"]))


def read_key(study: Path) -> Key:
    """The key of a study folder."""
    values = json.loads(open_artifact(study, "study").file(KEY).read_text(encoding="utf-8"))
    given = {
        name: {int(topic): tuple(items) for topic, items in lists.items()}
        for name, lists in values["given"].items()
    }
    return Key(values["places"], given)


def _ask(topic: Topic, models: Mapping[str, Suggester], places: int) -> dict[str, list[str]]:
    """The distinct texts of each model, best first."""
    session = [*topic.context, topic.query]
    return {
        name: list(dict.fromkeys(_text(each.text) for each in model.suggest(session, places)))
        for name, model in models.items()
    }


def _text(text: str) -> str:
    """The text with half characters (lone surrogates), which no file can hold, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _topic(value: dict[str, Any]) -> PooledTopic:
    topic = value["topic"]
    return PooledTopic(
        value["id"],
        Topic(topic["query"], topic["description"], tuple(topic["context"])),
        tuple(Item(item["id"], item["text"]) for item in value["items"]),
    )


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
        write_text(folder / POOL, json.dumps(asdict(pool), ensure_ascii=False, indent=1))
        write_text(folder / KEY, json.dumps(asdict(key), ensure_ascii=False, indent=1))
