"""What a program can say of a study's pool before people judge it. It is never called a study.

It finds pools that are not worth people's time: models that say the same, lists that are empty or
repeat what was typed. Whether a suggestion is useful, only people can say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nextquery.normalise import normalise_query
from nextquery.study.pool import Key, Pool, PooledTopic

NOTICE = "Automatic first pass: no person has judged. These figures are not a study."


@dataclass(frozen=True)
class ModelFacts:
    """One model's lists, as shares of the places it had or of the suggestions it made."""

    model: str
    filled: float
    """Places with a suggestion."""
    repeats: float
    """Suggestions that the session already has."""
    extends: float
    """Suggestions that keep every word of the topic and add some."""
    alone: float
    """Suggestions that no other model makes for the same topic."""


@dataclass(frozen=True)
class FirstPass:
    """The facts of a pool; `judged_by` says in every form that nobody judged."""

    notice: str
    judged_by: str
    topics: int
    items: int
    same_lists: int
    """Topics for which all models make the same suggestions: there is nothing to judge."""
    models: tuple[ModelFacts, ...]


def first_pass(pool: Pool, key: Key) -> FirstPass:
    """Look at every list of a study without judging any."""
    given = key.given
    same = sum(len({frozenset(given[m].get(t.id, ())) for m in given}) == 1 for t in pool.topics)
    return FirstPass(
        notice=NOTICE,
        judged_by="nobody",
        topics=len(pool.topics),
        items=sum(len(topic.items) for topic in pool.topics),
        same_lists=same,
        models=tuple(_model_facts(model, pool.topics, key) for model in given),
    )


def _model_facts(model: str, topics: Sequence[PooledTopic], key: Key) -> ModelFacts:
    suggestions = repeats = extends = alone = 0
    for topic in topics:
        texts = {item.id: normalise_query(item.text) for item in topic.items}
        session = {normalise_query(query) for query in (*topic.topic.context, topic.topic.query)}
        words = set(normalise_query(topic.topic.query).split())
        other_models = _of_others(model, topic.id, key.given)
        for item in key.given[model].get(topic.id, ()):
            suggestions += 1
            repeats += texts[item] in session
            extends += words < set(texts[item].split())
            alone += item not in other_models
    positions = key.places * len(topics)
    divisor = max(suggestions, 1)
    return ModelFacts(
        model,
        suggestions / max(positions, 1),
        repeats / divisor,
        extends / divisor,
        alone / divisor,
    )


def _of_others(
    model: str, topic: int, given: Mapping[str, Mapping[int, tuple[int, ...]]]
) -> set[int]:
    return {item for name in given if name != model for item in given[name].get(topic, ())}
