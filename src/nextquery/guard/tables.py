"""What the k-user rule needs beside a model, in the model folder's `guard/`.

    guard/settings.json       K and the key of the fingerprints
    guard/queries.marisa      the known queries (at least K users) with their counts
    guard/words.marisa        the known words (at least K users)
    guard/common_pairs.npy    sorted keys of the adjacent word pairs of at least K users
    guard/rare_pairs.npy      filter over the adjacent pairs of fewer than K users
    guard/rare_queries.npy    filter over the queries of two or more words of fewer than K users

No text that fewer than K users typed is in any of them: see docs/guards.md for what the filters
protect and what they do not. Reads the files, which `tabulation.py` writes; what is refused is
decided in `guard.py`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import marisa_trie
import numpy as np

from nextquery.errors import ArtifactError
from nextquery.guard.fingerprints import Keys, RareSet

FOLDER = "guard"
COUNT_FORMAT = "<Q"
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


def open_tables(model: Path) -> Tables:
    """Map the tables of a model folder."""
    folder = model / FOLDER
    try:
        settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        return Tables(
            min_users=int(settings["min_users"]),
            secret=bytes.fromhex(settings["key"]),
            queries=_no_queries().mmap(str(folder / "queries.marisa")),
            words=marisa_trie.Trie().mmap(str(folder / "words.marisa")),
            common_pairs=np.load(folder / "common_pairs.npy", mmap_mode="r", allow_pickle=False),
            rare_pairs=RareSet.load(folder / "rare_pairs.npy"),
            rare_queries=RareSet.load(folder / "rare_queries.npy"),
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ArtifactError(
            f"{folder}: the guard's tables cannot be read ({error}); make the model again"
        ) from None
