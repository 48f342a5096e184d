"""A prepared data folder made from (user, queries) sessions, as small as a test needs it."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from nextquery.artifacts import publish
from nextquery.logs.data_folder import PreparedData

Sessions = Sequence[tuple[str, Sequence[str]]]
DataMaker = Callable[[Sessions, int], PreparedData]


def _table(typed: Sequence[tuple[tuple[str, ...], str]], names: Sequence[str]) -> pl.DataFrame:
    """Counts and distinct users of each key in (key, user) occurrences."""
    users = defaultdict(list)
    for key, user in typed:
        users[key].append(user)
    columns: dict[str, list[str] | list[int]] = {
        name: [key[position] for key in users] for position, name in enumerate(names)
    }
    columns["count"] = [len(them) for them in users.values()]
    columns["users"] = [len(set(them)) for them in users.values()]
    return pl.DataFrame(columns)


@pytest.fixture
def make_data(tmp_path: Path) -> DataMaker:
    def make(sessions: Sessions, min_users: int) -> PreparedData:
        typed = [(query, user) for user, queries in sessions for query in queries]
        words = [((word,), user) for query, user in typed for word in query.split()]
        pairs = [(pair, user) for query, user in typed for pair in pairwise(query.split())]
        rows = [
            {"session": number, "position": position, "user": user, "query": query}
            for number, (user, queries) in enumerate(sessions)
            for position, query in enumerate(queries)
        ]
        target = tmp_path / "data"
        entries = {"settings": {"min_users": min_users}, "counts": {"sessions": {}}}
        with publish(target, "data", entries) as folder:
            (folder / "counts").mkdir()
            (folder / "sessions" / "background").mkdir(parents=True)
            common = pl.col("users") >= min_users
            counts = folder / "counts"
            queries_table = _table([((query,), user) for query, user in typed], ["query"])
            queries_table.filter(common).write_parquet(counts / "queries.parquet")
            _table(words, ["word"]).filter(common).write_parquet(counts / "words.parquet")
            pair_table = _table(pairs, ["first", "second"])  # all: rare pairs matter to the guard
            pair_table.write_parquet(counts / "word_pairs.parquet")
            pl.DataFrame(rows).write_parquet(folder / "sessions/background/part-00000.parquet")
        return PreparedData(target)

    return make
