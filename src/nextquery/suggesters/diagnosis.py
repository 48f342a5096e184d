"""Why a query is suggested or not: its counts in the log, the guard's verdict, its rank.

Says of users only whether at least K of them typed something; a count is given only if they did.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nextquery.guard.guard import NOTHING_TYPED, Guard
from nextquery.normalise import normalise_query
from nextquery.suggesters.base import Guarded, Suggester, Wrapping
from nextquery.suggesters.count_suggester import CountSuggester

LISTED = 50
"""Number of suggestions that are requested to find a query's rank."""


@dataclass(frozen=True)
class WordFact:
    """A word of the query."""

    word: str
    enough_users: bool
    """Whether at least K users typed it."""
    known: bool
    """Whether the model can predict it here (a word of the session may be copied)."""


@dataclass(frozen=True)
class Diagnosis:
    """What keeps a query from a list of suggestions."""

    query: str
    """Normalised, as the model has it."""
    context: tuple[str, ...]
    model: str
    """The kind of the model."""
    can_be_suggested: bool
    reason: str | None
    """Why it cannot, if it cannot."""
    min_users: int
    """K of the k-user rule."""
    enough_users: bool
    """Whether at least K users typed the whole query."""
    count: int | None
    """How often the log has it, only if at least K users typed it."""
    words: tuple[WordFact, ...]
    score: float
    """Its natural-log likelihood after the context."""
    rank: int | None
    """Its position among the first `listed` suggestions of the context, from 1; none if absent."""
    listed: int = LISTED


def why(model: Suggester, query: str, context: Sequence[str] = ()) -> Diagnosis:
    """Whether `query` can be suggested after `context`, and why not."""
    text = normalise_query(query)
    queries = tuple(filter(None, map(normalise_query, context)))
    (scored,) = model.score(queries, [text])
    unknown = scored.unknown
    makes = model.base if isinstance(model, Wrapping) else model
    reason = _reason(makes, text, queries, unknown)
    shown = [] if reason else [item.text for item in model.suggest(queries, LISTED)]
    tables = _guard(model).tables
    count = tables.count(text) or None
    words = tuple(
        WordFact(word, word in tables.words, word not in unknown) for word in text.split()
    )
    return Diagnosis(
        query=text,
        context=queries,
        model=model.kind,
        can_be_suggested=reason is None,
        reason=reason,
        min_users=tables.min_users,
        enough_users=count is not None,
        count=count,
        words=words,
        score=scored.log_likelihood,
        rank=shown.index(text) + 1 if text in shown else None,
    )


def _guard(model: Suggester) -> Guard:
    return model.guard if isinstance(model, Guarded) else Guard()


def _reason(
    model: Suggester, text: str, context: Sequence[str], unknown: Sequence[str]
) -> str | None:
    """The first thing in its way, in the order in which a list is made."""
    if not text:
        return "nothing of it is left when it is normalised"
    if text in context:
        return "it is a query of the session"
    if isinstance(model, CountSuggester):
        is_known, own_text = text in model.background.queries, NOTHING_TYPED
    else:
        is_known, own_text = not unknown, _guard(model).own_text(context)
    refused = _guard(model).refusal(text, own_text)
    if refused is not None:
        return f"refused by the guard: {refused.value}"
    if is_known:
        return None
    if isinstance(model, CountSuggester):
        min_users = _guard(model).tables.min_users
        if min_users == 1:
            return "the model suggests only queries that it has seen, and this is none of them"
        return f"the model suggests only queries that at least {min_users} users typed"
    return f"words that the model does not know: {' '.join(dict.fromkeys(unknown))}"
