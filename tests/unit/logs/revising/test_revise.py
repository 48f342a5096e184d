"""The job itself; tests/integration/test_revising.py shows that its result is the right one."""

from pathlib import Path

import polars as pl
import pytest

from nextquery.errors import ArtifactError, LogError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.privacy import pseudonym
from nextquery.logs.revise import Removal, revise
from nextquery.logs.settings import PrepareSettings


def test_notes_are_kept_in_order_and_name_nobody(data: Path) -> None:
    ann, bob = (Removal(frozenset({str(pseudonym(user))})) for user in ("ann", "bob"))
    revise(data, data, (), lambda rows: ann, lambda n: {"users": n})
    revise(data, data, (), lambda rows: bob, lambda n: {"users": n})
    notes = PreparedData(data).artifact.manifest["revisions"]
    assert [sorted(note) for note in notes] == [["date", "users"]] * 2
    assert [note["users"] for note in notes] == [1, 1]


def test_everybody_cannot_go(data: Path) -> None:
    before = (data / "manifest.json").read_bytes()
    everybody = Removal(frozenset(str(pseudonym(name)) for name in ("ann", "bob", "cat", "dan")))
    with pytest.raises(LogError, match="no row would be left"):
        revise(data, data, (), lambda rows: everybody, lambda n: {})
    assert (data / "manifest.json").read_bytes() == before


def test_what_another_job_did_meanwhile_is_not_undone(data: Path, log: Path) -> None:
    def meanwhile(rows: pl.LazyFrame) -> Removal:
        prepare([log, log], data, PrepareSettings(min_users=1, spelling=False))
        return Removal()

    with pytest.raises(ArtifactError, match="replaced while it was in use"):
        revise(data, data, (), meanwhile, lambda n: {})
    assert PreparedData(data).artifact.manifest["counts"]["rows_read"] == 82
