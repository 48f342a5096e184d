"""Tables of the K-user rule: words, pairs and queries of K users, as keyed fingerprints."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact, read_artifact, write_text
from nextquery.artifacts.arrays import load_array, load_record_trie, load_trie, require
from nextquery.errors import ArtifactError
from nextquery.guard.fingerprints import Keys, RareSet, pair_keys, text_keys
from nextquery.guard.quality import TypedText
from nextquery.logs.spelling import MIN_TARGET_USERS

if TYPE_CHECKING:
    import polars as pl

    from nextquery.logs.data_folder import PreparedData

FOLDER = "guard"
COUNT_FORMAT = "<Q"
COUNT_WIDTH = 8
LONGEST_KEY = 64
"""What BLAKE2b takes."""
CALIBRATED = 20_000
"""About this many typed queries set the threshold of fluency."""
_NO_KEYS = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class Tables:
    """The opened tables; the default ones know nothing and refuse nothing (K = 1)."""

    min_users: int = 1
    secret: bytes = b""
    queries: marisa_trie.RecordTrie = field(
        default_factory=lambda: marisa_trie.RecordTrie(COUNT_FORMAT, [])
    )
    words: marisa_trie.Trie = field(default_factory=marisa_trie.Trie)
    common_pairs: Keys = field(default_factory=lambda: _NO_KEYS)
    rare_pairs: RareSet = field(default_factory=lambda: RareSet.build(_NO_KEYS))
    rare_queries: RareSet = field(default_factory=lambda: RareSet.build(_NO_KEYS))
    word_counts: Keys = field(default_factory=lambda: _NO_KEYS)
    """How often each of `words` was typed, by its id; empty: spelling is not corrected."""
    pair_counts: Keys = field(default_factory=lambda: _NO_KEYS)
    """How often each of `common_pairs` was typed; empty: spelling is not corrected."""
    titles: marisa_trie.Trie = field(default_factory=marisa_trie.Trie)
    """Titles of what the site has, which need no users; empty where `prepare` got none."""
    typed_text: TypedText | None = None
    """The tables of the text-quality gate; None in models of earlier versions."""
    searches: int = 0
    """Number of searches of the background; 0 in models of earlier versions."""

    def count(self, query: str) -> int:
        """How often the background holds a known query, 0 if it is not known."""
        values = self.queries.get(query)
        return int(values[0][0]) if values else 0

    def log_share(self, query: str) -> float | None:
        """The log of a known query's share of all searches, None if either is not known."""
        count = self.count(query)
        return math.log(count / self.searches) if count and self.searches else None

    def pair_count(self, key: int) -> int:
        """How often a pair was typed, by its key; 0 if fewer than K users typed it."""
        index = int(np.searchsorted(self.common_pairs, np.uint64(key)))
        is_common = index < len(self.pair_counts) and int(self.common_pairs[index]) == key
        return int(self.pair_counts[index]) if is_common else 0

    def check(self) -> None:
        """Refuse tables that are not as `write_tables` writes them."""
        counts = ((self.word_counts, self.words), (self.pair_counts, self.common_pairs))
        for numbers, counted in counts:
            require(len(numbers) in (0, len(counted)), "the counts of the spelling do not fit")
        pairs = self.common_pairs
        require(pairs.dtype == np.uint64, "common_pairs are not keys")
        require(bool((pairs[1:] >= pairs[:-1]).all()), "common_pairs are out of order")
        for name, filter_ in (("pairs", self.rare_pairs), ("queries", self.rare_queries)):
            require(filter_.is_valid(), f"rare_{name} is not a filter")
        if self.typed_text is not None:
            self.typed_text.check()


def open_tables(model: Path | Artifact) -> Tables:
    """Map the tables of a model folder, each bound to the folder's manifest."""
    return read_artifact(model, _read_tables)


def _read_tables(artifact: Artifact) -> Tables:
    if not artifact.files(FOLDER):
        raise ArtifactError(f"{artifact.path}: has no {FOLDER}/; make the model again")
    name = f"{FOLDER}/settings.json"
    corrections: dict[str, str] = {}
    try:
        settings = json.loads(artifact.file(name).read_text(encoding="utf-8"))
        min_users, secret = settings["min_users"], bytes.fromhex(settings["key"])
        # Models of earlier versions have no text-quality gate.
        fluency = float(settings["least_fluency"]) if "least_fluency" in settings else None
        searches = settings.get("searches", 0)
        if fluency is not None:
            corrections = {str(word): str(text) for word, text in settings["corrections"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(
            f"{artifact.path / name}: cannot be read ({error}); make the model again"
        ) from None
    numbers = type(min_users) is type(searches) is int and min_users > 0 and searches >= 0
    if not numbers or len(secret) > LONGEST_KEY:
        raise ArtifactError(f"{artifact.path / name}: not as it should be; make the model again")
    words = load_trie(artifact, f"{FOLDER}/words.marisa")
    pairs = load_array(artifact, f"{FOLDER}/common_pairs.npy", "u")
    typed_text, titles = None, f"{FOLDER}/titles.marisa"
    if fluency is not None:
        counts = load_array(artifact, f"{FOLDER}/word_positions.npy", "i")
        users = load_array(artifact, f"{FOLDER}/pair_users.npy", "i")
        typed_text = TypedText(words, secret, counts, pairs, users, fluency, corrections)
    has_titles = titles in artifact.files(FOLDER)
    tables = Tables(
        min_users=min_users,
        secret=secret,
        queries=load_record_trie(artifact, f"{FOLDER}/queries.marisa", COUNT_FORMAT, COUNT_WIDTH),
        words=words,
        common_pairs=pairs,
        rare_pairs=RareSet(load_array(artifact, f"{FOLDER}/rare_pairs.npy", "u")),
        rare_queries=RareSet(load_array(artifact, f"{FOLDER}/rare_queries.npy", "u")),
        word_counts=_counts(artifact, "word_counts.npy"),
        pair_counts=_counts(artifact, "pair_counts.npy"),
        titles=load_trie(artifact, titles) if has_titles else marisa_trie.Trie(),
        typed_text=typed_text,
        searches=searches,
    )
    artifact.check_once("guard", tables.check)
    return tables


def _counts(artifact: Artifact, name: str) -> Keys:
    """The counts that spelling needs; folders of uncorrected data, and older ones, have none."""
    if f"{FOLDER}/{name}" not in artifact.files(FOLDER):
        return _NO_KEYS
    return load_array(artifact, f"{FOLDER}/{name}", "u")


def write_tables(data: PreparedData, folder: Path) -> None:
    """Write the tables for `data` into `folder/guard/`, the same bytes for the same data."""
    target = folder / FOLDER
    target.mkdir()
    # A key of its own for every log, so that fingerprints of two logs cannot be compared.
    sums = json.dumps(data.artifact.manifest["files"], sort_keys=True)
    secret = hashlib.blake2b(sums.encode(), digest_size=16, person=b"nextquery.guard").digest()
    words = _write_known(data, target)
    pairs, users = _write_pairs(data, secret, target)
    rare = text_keys(_rare_queries(data), secret)
    np.save(target / "rare_queries.npy", RareSet.build(rare).bits, allow_pickle=False)
    if titles := data.titles():
        marisa_trie.Trie(sorted(titles)).save(str(target / "titles.marisa"))
    typed = count_typed_text(data, words, secret, pairs, users)
    np.save(target / "word_positions.npy", typed.counts, allow_pickle=False)
    np.save(target / "pair_users.npy", typed.pair_users, allow_pickle=False)
    settings = {
        "min_users": data.min_users,
        "key": secret.hex(),
        "least_fluency": typed.least_fluency,
        "corrections": dict(typed.corrections),
        "searches": data.artifact.entry("counts").get("searches", {}).get("background", 0),
    }
    write_text(target / "settings.json", json.dumps(settings, indent=2) + "\n")
    data.artifact.check_current()  # the last that is read of it: all came from one folder


def _write_known(data: PreparedData, target: Path) -> marisa_trie.Trie:
    """Write the queries and words of K users; return the words."""
    import polars as pl

    rows = data.counts("queries").filter(pl.col("users") >= data.min_users).sort("query")
    known = rows.select("query", "count").collect()
    counts = ((count,) for count in known["count"])
    marisa_trie.RecordTrie(COUNT_FORMAT, zip(known["query"], counts, strict=True)).save(
        str(target / "queries.marisa")
    )
    words = data.counts("words").filter(pl.col("users") >= data.min_users).sort("word").collect()
    trie = marisa_trie.Trie(words["word"].to_list())
    trie.save(str(target / "words.marisa"))
    if _corrects_spelling(data):
        counts_by_id = np.zeros(len(trie), dtype=np.uint64)
        for word, count, users in words.select("word", "count", "users").iter_rows():
            # What fewer users typed may have been planted: nothing is corrected to it.
            counts_by_id[trie[word]] = count if users >= MIN_TARGET_USERS else 1
        np.save(target / "word_counts.npy", counts_by_id, allow_pickle=False)
    return trie


def _corrects_spelling(data: PreparedData) -> bool:
    return bool(data.artifact.entry("settings").get("spelling"))


def _write_pairs(data: PreparedData, secret: bytes, target: Path) -> tuple[Keys, NDArray[np.int64]]:
    """Write the pairs of adjacent words; return the keys and users of those of K users."""
    import polars as pl

    counted = data.counts("word_pairs").select("first", "second", "users", "count")
    pairs = counted.sort("first", "second").collect()
    words = pl.concat([pairs["first"], pairs["second"].alias("first")]).unique().sort()
    keys = pl.DataFrame({"word": words, "key": text_keys(words, secret)})
    joined = pairs.join(keys, left_on="first", right_on="word", maintain_order="left").join(
        keys, left_on="second", right_on="word", suffix="_second", maintain_order="left"
    )
    key_pairs = pair_keys(joined["key"].to_numpy(), joined["key_second"].to_numpy())
    users = joined["users"].cast(pl.Int64).to_numpy()
    rare = users < data.min_users
    order = np.argsort(key_pairs[~rare], kind="stable")
    common, common_users = key_pairs[~rare][order], users[~rare][order]
    np.save(target / "common_pairs.npy", common, allow_pickle=False)
    if _corrects_spelling(data):
        counts = joined["count"].to_numpy()[~rare][order].astype(np.uint64)
        np.save(target / "pair_counts.npy", counts, allow_pickle=False)
    rare_pairs = RareSet.build(key_pairs[rare])
    np.save(target / "rare_pairs.npy", rare_pairs.bits, allow_pickle=False)
    return common, common_users


def count_typed_text(
    data: PreparedData,
    words: marisa_trie.Trie,
    secret: bytes,
    pairs: Keys,
    pair_users: NDArray[np.int64],
) -> TypedText:
    """Count how the words of K users are used in the background; a user counts once per query."""

    rows = data.search_rows("background").select("user", "query").unique().sort("query", "user")
    queries = rows.select("query").collect(engine="streaming")["query"]
    split = queries.str.split(" ")
    counts = np.zeros(3 * len(words), dtype=np.int64)
    columns = (split.explode(), split.list.first(), split.list.last())
    for column, used in enumerate(columns):
        for word, times in used.alias("word").value_counts().iter_rows():
            if word in words:
                counts[3 * words[word] + column] = times
    corrections = _corrections(data)
    typed = TypedText(words, secret, counts, pairs, pair_users, corrections=corrections)
    sample = queries.unique().sort().gather_every(1 + len(queries) // CALIBRATED)
    return typed.calibrated(sample.to_list())


def _corrections(data: PreparedData) -> dict[str, str]:
    """Misspelt words of K users that need no neighbour to be corrected, and what they stand for."""
    from nextquery.logs.spelling import Counted, learn_spelling

    words, pairs = (data.counts(table).collect() for table in ("words", "word_pairs"))
    counts = {
        row["word"]: Counted(row["count"], row["users"]) for row in words.iter_rows(named=True)
    }
    beside = {
        (row["first"], row["second"]): Counted(row["count"], row["users"])
        for row in pairs.iter_rows(named=True)
        if row["users"] >= data.min_users and row["first"] in counts and row["second"] in counts
    }
    candidates = learn_spelling(sorted(counts), counts, beside).candidates
    return {word: ranked[0].text for word, ranked in candidates.items() if ranked[0].alone}


def _rare_queries(data: PreparedData) -> pl.Series:
    """The background's queries of two or more words that fewer than K users typed."""
    import polars as pl

    return (
        data.search_rows("background")
        .filter(pl.col("query").str.contains(" ", literal=True))
        .group_by("query")
        .agg(pl.col("user").n_unique().alias("users"))
        .filter(pl.col("users") < data.min_users)
        .select("query")
        .collect(engine="streaming")["query"]
        .sort()
    )
