"""The texts of a request as the rest of the service sees them: normalised once, and bounded.

The routes call these functions before anything else. What a request can cost follows from the
length of the texts that they give: normalising can make a character into 18, and finding the words
of Chinese, Japanese or Thai takes 5 microseconds a character.
"""

import asyncio
import re
from collections.abc import Sequence

from nextquery.normalise import normalise_query
from nextquery.service.schemas import InSession, PastSearch, SuggestRequest
from nextquery.service.settings import (
    MAX_HISTORY_BYTES,
    MAX_PREFIX_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    MAX_SESSION_BYTES,
    MAX_WORD_CHARACTERS,
    text_bytes,
)
from nextquery.suggesters.returning import PastQuery, merge_history

_PLAIN_QUERY = re.compile(r"[a-z0-9]{1,64}(?: [a-z0-9]{1,64})*")
"""A normalised query of ASCII letters and digits."""
BYTES_BEFORE_OTHERS = 4096
"""After this number of bytes of a long list of texts, other requests are served first."""


def read_texts(body: InSession) -> None:
    """Normalise the query and the context of a request, in place."""
    body.context = read_session(body.context)
    if isinstance(body, SuggestRequest):
        body.query = read_query(body.query)


def read_query(text: str) -> str:
    """A query, normalised; characters beyond the longest word or query are left out."""
    query = normalise_query(text, MAX_QUERY_CHARACTERS)
    if len(query) <= MAX_WORD_CHARACTERS:
        return query
    return " ".join(word[:MAX_WORD_CHARACTERS] for word in query.split())


def read_session(queries: Sequence[str]) -> list[str]:
    """The last queries of a session, normalised; beyond `MAX_SESSION_BYTES` none is looked at."""
    kept: list[str] = []
    left = MAX_SESSION_BYTES
    for query in reversed(queries):
        # What is dropped by normalising takes time, too.
        left -= text_bytes(query)
        if left < 0:
            break
        text = read_query(query)
        left -= max(0, text_bytes(text) - text_bytes(query))
        if text:
            kept.append(text)
    return kept[::-1]


def read_history(searches: Sequence[PastSearch]) -> tuple[PastQuery, ...]:
    """The earlier searches of a visitor, normalised, newest first and without repeats.

    Beyond `MAX_HISTORY_BYTES` none is looked at.
    """
    kept: list[PastQuery] = []
    left = MAX_HISTORY_BYTES
    for search in searches:
        left -= text_bytes(search.query)
        if left < 0:
            break
        # Most texts come back as the service gave them: no need to normalise them again.
        plain = _PLAIN_QUERY.fullmatch(search.query) is not None
        if text := search.query if plain else read_query(search.query):
            kept.append(PastQuery(text, search.time, search.count))
    return merge_history(kept)


def read_prefix(text: str) -> str | None:
    """A half-typed query, normalised, and after it what shows that its last word is whole.

    None if it is longer than anything that could be completed.
    """
    prefix = normalise_query(text, MAX_QUERY_CHARACTERS)
    if len(prefix) > MAX_PREFIX_CHARACTERS:
        return None
    return prefix + text[-1] if prefix and not normalise_query(text[-1]) else prefix


async def read_many(texts: Sequence[str]) -> list[str]:
    """Many queries, normalised; other requests are served in between."""
    queries: list[str] = []
    since = 0
    for text in texts:
        since += text_bytes(text)
        if since > BYTES_BEFORE_OTHERS:
            await asyncio.sleep(0)
            since = 0
        queries.append(read_query(text))
    return queries
