"""The columns of every table, on the way to the data folder and in it. Knows no engine."""

import pyarrow as pa

INSTANT = pa.timestamp("us")

TEXTS = pa.schema({"raw_id": pa.int64(), "query": pa.string(), "drop": pa.string()})
"""What a raw query becomes, and why its rows are left out (null: they are kept)."""

USERS = pa.schema({"user_id": pa.int64(), "user": pa.int64()})
"""The pseudonym of a user."""

WORDS = pa.schema({"query_id": pa.int64(), "word": pa.string(), "next_word": pa.string()})
"""The words of a query, each with the word after it (null for the last)."""

CORRECTED = pa.schema({"query_id": pa.int64(), "query": pa.string(), "changes": pa.string()})
"""A query with its spelling corrected, and which words were changed."""

JOURNAL = pa.schema(
    {
        "place": pa.int64(),
        "user": pa.string(),
        "time": INSTANT,
        "query": pa.string(),
        "click": pa.string(),
        "drop": pa.string(),
    }
)
"""A row of the log after cleaning; `drop` says why its query was left out (null: it was kept)."""

SESSIONS = pa.schema(
    {
        "session": pa.int64(),
        "position": pa.int32(),
        "user": pa.string(),
        "time": INSTANT,
        "query": pa.string(),
        "clicks": pa.int32(),
    }
)

_COUNTED = {"count": pa.int64(), "users": pa.int64()}
COUNTS = {
    "queries": pa.schema({"query": pa.string(), **_COUNTED}),
    "words": pa.schema({"word": pa.string(), **_COUNTED}),
    "word_pairs": pa.schema({"first": pa.string(), "second": pa.string(), **_COUNTED}),
    "followers": pa.schema({"anchor": pa.string(), "next": pa.string(), **_COUNTED}),
    "clicks": pa.schema({"query": pa.string(), "url": pa.string(), **_COUNTED}),
}
"""The count tables by name: their texts, how often they were typed, and by how many users."""
