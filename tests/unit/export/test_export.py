import gzip
from pathlib import Path

import pytest

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError
from nextquery.export.export import LIST_TARGETS, export_model
from nextquery.suggesters.base import Suggester


@pytest.mark.parametrize("target", LIST_TARGETS)
def test_an_export_is_a_complete_folder(target: str, model: Suggester, tmp_path: Path) -> None:
    facts = export_model(model, target, tmp_path / "out")
    artifact = open_artifact(tmp_path / "out", "export")
    artifact.verify()
    assert artifact.manifest["counts"]["queries"] == facts.queries == 2
    assert facts.next_queries == 1


@pytest.mark.parametrize("target", LIST_TARGETS)
def test_nothing_of_one_user_or_blocked_leaves(
    target: str, model: Suggester, tmp_path: Path
) -> None:
    export_model(model, target, tmp_path / "out")
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    written = "".join(
        (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        for path in files
    )
    assert "red boots" in written
    assert "secret" not in written
    assert "blue" not in written


def test_an_unknown_target_is_refused(model: Suggester, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`to` solr"):
        export_model(model, "solr", tmp_path / "out")
