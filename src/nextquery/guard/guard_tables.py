"""What the k-user rule needs beside a model, in the model folder's `guard/`.

    guard/settings.json       K and the key of the fingerprints
    guard/queries.marisa      the known queries (at least K users) with their counts
    guard/words.marisa        the known words (at least K users)
    guard/common_pairs.npy    sorted keys of the adjacent word pairs of at least K users
    guard/rare_pairs.npy      filter over the adjacent pairs of fewer than K users
    guard/rare_queries.npy    filter over the queries of two or more words of fewer than K users

No text that fewer than K users typed is in any of them: see docs/guards.md for what the filters
protect and what they do not. Reads the files, which `build_tables.py` writes; what is refused is
decided in `guard.py`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import marisa_trie
import numpy as np

from nextquery.artifacts import Artifact, read_artifact
from nextquery.artifacts.arrays import load_array, require
from nextquery.artifacts.tries import load_record_trie, load_trie
from nextquery.errors import ArtifactError
from nextquery.guard.fingerprints import Keys, RareSet

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

    def count(self, query: str) -> int:
        """How often the background holds a known query, 0 if it is not known."""
        found = self.queries.get(query)
        return int(found[0][0]) if found else 0

    def check(self) -> None:
        """Refuse tables that are not as `build_tables.py` writes them."""
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
    )
    artifact.check_once("guard", tables.check)
    return tables


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
