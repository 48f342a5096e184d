"""The columns of every table, on the way to the data folder and in it. Knows no engine."""

import pyarrow as pa

INSTANT = pa.timestamp("us")

TEXTS = pa.schema({"raw": pa.string(), "query": pa.string(), "drop": pa.string()})
"""A raw query, what it becomes, and why its rows are left out (null: they are kept)."""

USERS = pa.schema({"raw_user": pa.string(), "user": pa.int64()})
"""A user as the log names it, and the pseudonym."""

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

_COUNTS = {"count": pa.int64(), "users": pa.int64()}
QUERIES = pa.schema({"query": pa.string(), **_COUNTS})
WORDS = pa.schema({"word": pa.string(), **_COUNTS})
WORD_PAIRS = pa.schema({"first": pa.string(), "second": pa.string(), **_COUNTS})
FOLLOWERS = pa.schema({"anchor": pa.string(), "next": pa.string(), **_COUNTS})
CLICKS = pa.schema({"query": pa.string(), "url": pa.string(), **_COUNTS})
