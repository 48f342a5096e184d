"""Tables of the K-user rule: words, pairs and queries of K users, as keyed fingerprints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts import Artifact, read_artifact, write_text
from nextquery.artifacts.arrays import load_array, load_record_trie, load_trie, require
from nextquery.errors import ArtifactError
from nextquery.logs.spelling import MIN_TARGET_USERS

if TYPE_CHECKING:
    import polars as pl

    from nextquery.logs.data_folder import PreparedData

Keys = NDArray[np.uint64]

_BITS_A_MEMBER = 16
_EMPTY_BITS = 64
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SALTS = tuple(map(int, _MIX))
_ALL_BITS = (1 << 64) - 1


def text_keys(texts: Iterable[str], secret: bytes) -> Keys:
    """A 64-bit keyed hash of each text."""
    digests = (hashlib.blake2b(text.encode(), digest_size=8, key=secret).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


def pair_keys(first: Keys, second: Keys) -> Keys:
    """The keys of ordered pairs, elementwise with broadcasting, from the keys of their parts."""
    return _scramble(_scramble(first) * _ODD + second)


def text_key(text: str, secret: bytes) -> int:
    """What `text_keys` gives for one text: arrays of one number take five times as long."""
    return int.from_bytes(
        hashlib.blake2b(text.encode(), digest_size=8, key=secret).digest(), "little"
    )


def pair_key(first: int, second: int) -> int:
    """What `pair_keys` gives for one pair."""
    return _scrambled((_scrambled(first) * int(_ODD) + second) & _ALL_BITS)


class RareSet:
    """A Bloom filter over 64-bit keys with two probes and 16 bits a member."""

    def __init__(self, bits: NDArray[np.uint8]) -> None:
        self.bits = bits

    @classmethod
    def build(cls, keys: Keys) -> RareSet:
        """A filter that holds `keys`."""
        size = _EMPTY_BITS + len(keys) * _BITS_A_MEMBER
        bits = np.zeros((size + 7) // 8, dtype=np.uint8)
        for byte, bit in _probes(keys, len(bits)):
            np.bitwise_or.at(bits, byte, bit)
        return cls(bits)

    def is_sound(self) -> bool:
        """Whether it has the bytes of a filter: at least those of an empty one."""
        return self.bits.dtype == np.uint8 and len(self.bits) >= _EMPTY_BITS // 8

    def save(self, path: Path) -> None:
        """Write the filter's bits."""
        np.save(path, self.bits, allow_pickle=False)

    def has(self, key: int) -> bool:
        """What `contains` says of one key."""
        size = len(self.bits) * 8
        places = (_scrambled(key ^ salt) % size for salt in _SALTS)
        return all(self.bits[place >> 3] >> (place & 7) & 1 for place in places)

    def contains(self, keys: Keys) -> NDArray[np.bool_]:
        """Whether each key is a member (never wrong on members)."""
        found = np.ones(keys.shape, dtype=np.bool_)
        for byte, bit in _probes(keys, len(self.bits)):
            found &= (self.bits[byte] & bit) != 0
        return found


def in_sorted(keys: Keys, ordered: Keys) -> NDArray[np.bool_]:
    """Whether each of `keys` is in the sorted array `ordered`."""
    if len(ordered) == 0:
        return np.zeros(keys.shape, dtype=np.bool_)
    place = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.asarray(ordered[place] == keys)


def _probes(keys: Keys, size: int) -> list[tuple[NDArray[np.intp], NDArray[np.uint8]]]:
    """The (byte, bit) places of each key, one pair of arrays a probe."""
    probes = []
    for salt in _MIX:
        place = _scramble(keys ^ salt) % np.uint64(size * 8)
        bit = np.left_shift(np.uint8(1), (place & np.uint64(7)).astype(np.uint8))
        probes.append(((place >> np.uint64(3)).astype(np.intp), bit))
    return probes


def _scramble(keys: Keys) -> Keys:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    keys = (keys ^ (keys >> np.uint64(30))) * _MIX[0]
    keys = (keys ^ (keys >> np.uint64(27))) * _MIX[1]
    return keys ^ (keys >> np.uint64(31))


def _scrambled(key: int) -> int:
    """What `_scramble` makes of one key."""
    key = ((key ^ key >> 30) * _SALTS[0]) & _ALL_BITS
    key = ((key ^ key >> 27) * _SALTS[1]) & _ALL_BITS
    return key ^ key >> 31


FOLDER = "guard"
COUNT_FORMAT = "<Q"
COUNT_WIDTH = 8
LONGEST_KEY = 64
"""What BLAKE2b takes."""
_NO_KEYS = np.empty(0, dtype=np.uint64)


def _no_queries() -> marisa_trie.RecordTrie:
    return marisa_trie.RecordTrie(COUNT_FORMAT, [])


@dataclass(frozen=True)
class Tables:
    """The opened tables; the default ones know nothing and refuse nothing (K = 1)."""

    min_users: int = 1
    secret: bytes = b""
    queries: marisa_trie.RecordTrie = field(default_factory=_no_queries)
    words: marisa_trie.Trie = field(default_factory=marisa_trie.Trie)
    common_pairs: Keys = field(default_factory=lambda: _NO_KEYS)
    rare_pairs: RareSet = field(default_factory=lambda: RareSet.build(_NO_KEYS))
    rare_queries: RareSet = field(default_factory=lambda: RareSet.build(_NO_KEYS))
    word_counts: Keys = field(default_factory=lambda: _NO_KEYS)
    """How often each of `words` was typed, by its id; empty: spelling is not corrected."""
    pair_counts: Keys = field(default_factory=lambda: _NO_KEYS)
    """How often each of `common_pairs` was typed; empty: spelling is not corrected."""

    def count(self, query: str) -> int:
        """How often the background holds a known query, 0 if it is not known."""
        found = self.queries.get(query)
        return int(found[0][0]) if found else 0

    def pair_count(self, key: int) -> int:
        """How often a pair was typed, by its key; 0 if fewer than K users typed it."""
        place = int(np.searchsorted(self.common_pairs, np.uint64(key)))
        known = place < len(self.pair_counts) and int(self.common_pairs[place]) == key
        return int(self.pair_counts[place]) if known else 0

    def check(self) -> None:
        """Refuse tables that are not as `write_tables` writes them."""
        counts = ((self.word_counts, self.words), (self.pair_counts, self.common_pairs))
        for numbers, counted in counts:
            require(len(numbers) in (0, len(counted)), "the counts of the spelling do not fit")
        pairs = self.common_pairs
        require(pairs.dtype == np.uint64, "common_pairs are no keys")
        require(bool((pairs[1:] >= pairs[:-1]).all()), "common_pairs are out of order")
        for name, filter_ in (("pairs", self.rare_pairs), ("queries", self.rare_queries)):
            require(filter_.is_sound(), f"rare_{name} is no filter")


def open_tables(model: Path | Artifact) -> Tables:
    """Map the tables of a model folder, each bound to the folder's manifest."""
    return read_artifact(model, _read_tables)


def _read_tables(artifact: Artifact) -> Tables:
    if not artifact.files(FOLDER):
        raise ArtifactError(f"{artifact.path}: has no {FOLDER}/; make the model again")
    min_users, secret = _settings(artifact)
    tables = Tables(
        min_users=min_users,
        secret=secret,
        queries=load_record_trie(artifact, f"{FOLDER}/queries.marisa", COUNT_FORMAT, COUNT_WIDTH),
        words=load_trie(artifact, f"{FOLDER}/words.marisa"),
        common_pairs=load_array(artifact, f"{FOLDER}/common_pairs.npy", "u"),
        rare_pairs=RareSet(load_array(artifact, f"{FOLDER}/rare_pairs.npy", "u")),
        rare_queries=RareSet(load_array(artifact, f"{FOLDER}/rare_queries.npy", "u")),
        word_counts=_counts(artifact, "word_counts.npy"),
        pair_counts=_counts(artifact, "pair_counts.npy"),
    )
    artifact.check_once("guard", tables.check)
    return tables


def _counts(artifact: Artifact, name: str) -> Keys:
    """The counts that spelling needs; folders of uncorrected data, and older ones, have none."""
    if f"{FOLDER}/{name}" not in artifact.files(FOLDER):
        return _NO_KEYS
    return load_array(artifact, f"{FOLDER}/{name}", "u")


def _settings(artifact: Artifact) -> tuple[int, bytes]:
    """K and the key of the fingerprints."""
    name = f"{FOLDER}/settings.json"
    try:
        settings = json.loads(artifact.file(name).read_text(encoding="utf-8"))
        min_users, secret = settings["min_users"], bytes.fromhex(settings["key"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(
            f"{artifact.path / name}: cannot be read ({error}); make the model again"
        ) from None
    if type(min_users) is not int or min_users < 1 or len(secret) > LONGEST_KEY:
        raise ArtifactError(f"{artifact.path / name}: not as it should be; make the model again")
    return min_users, secret


def write_tables(data: PreparedData, folder: Path) -> None:
    """Write the tables for `data` into `folder/guard/`, the same bytes for the same data."""
    target = folder / FOLDER
    target.mkdir()
    secret = _secret(data)
    settings = {"min_users": data.min_users, "key": secret.hex()}
    write_text(target / "settings.json", json.dumps(settings, indent=2) + "\n")
    _write_known(data, target)
    _write_pairs(data, secret, target)
    rare = text_keys(_rare_queries(data), secret)
    RareSet.build(rare).save(target / "rare_queries.npy")
    data.artifact.check_current()  # the last that is read of it: all came from one folder


def _secret(data: PreparedData) -> bytes:
    """A key of its own for every log, so that fingerprints of two logs cannot be compared."""
    sums = json.dumps(data.artifact.manifest["files"], sort_keys=True)
    return hashlib.blake2b(sums.encode(), digest_size=16, person=b"nextquery.guard").digest()


def _write_known(data: PreparedData, target: Path) -> None:
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


def _corrects_spelling(data: PreparedData) -> bool:
    return bool(data.artifact.entry("settings").get("spelling"))


def _write_pairs(data: PreparedData, secret: bytes, target: Path) -> None:
    import polars as pl

    pairs = _pair_users(data)
    words = pl.concat([pairs["first"], pairs["second"].alias("first")]).unique().sort()
    keys = pl.DataFrame({"word": words, "key": text_keys(words, secret)})
    joined = pairs.join(keys, left_on="first", right_on="word", maintain_order="left").join(
        keys, left_on="second", right_on="word", suffix="_second", maintain_order="left"
    )
    found = pair_keys(joined["key"].to_numpy(), joined["key_second"].to_numpy())
    rare = (joined["users"] < data.min_users).to_numpy()
    order = np.argsort(found[~rare], kind="stable")
    np.save(target / "common_pairs.npy", found[~rare][order], allow_pickle=False)
    if _corrects_spelling(data):
        counts = joined["count"].to_numpy()[~rare][order].astype(np.uint64)
        np.save(target / "pair_counts.npy", counts, allow_pickle=False)
    RareSet.build(found[rare]).save(target / "rare_pairs.npy")


def _pair_users(data: PreparedData) -> pl.DataFrame:
    """How many users typed each pair of adjacent words of the background, however few."""
    pairs = data.counts("word_pairs").select("first", "second", "users", "count")
    return pairs.sort("first", "second").collect()


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
