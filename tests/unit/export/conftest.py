from pathlib import Path
from typing import Any

import pytest

from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import load

SESSIONS = [
    *[(f"a{n}", ["red shoes", "red boots"]) for n in range(4)],
    *[(f"b{n}", ["red shoes", "blue shoes"]) for n in range(3)],
    ("lonely", ["red shoes", "my secret"]),
]


@pytest.fixture
def model(prepared: Any, tiny_log: Any, tmp_path: Path) -> Suggester:
    fit_model(Adjacency, prepared(tiny_log(SESSIONS, min_users=2))).save(tmp_path / "model")
    blocked = tmp_path / "blocked.txt"
    blocked.write_text("blue\n")
    return load(tmp_path / "model", blocklist=blocked)
