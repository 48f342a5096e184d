"""What models say of the removals that their data had seen."""

from pathlib import Path

import polars as pl

from nextquery.artifacts import open_artifact
from nextquery.logs.data_folder import PreparedData, data_entry, forgotten_since
from nextquery.logs.prepare import PrepareSettings, prepare
from nextquery.logs.revise import forget
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.popularity import Popularity


def test_a_model_made_before_a_removal_is_behind(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 200, 1)
    prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(spelling=False))
    fit_model(Popularity, PreparedData(tmp_path / "data")).save(tmp_path / "model")
    rows = PreparedData(tmp_path / "data").session_rows("background")
    users = rows.select(pl.col("user").unique(maintain_order=True)).collect()["user"][:2].to_list()
    forget(tmp_path / "data", users, as_pseudonyms=True)
    data = PreparedData(tmp_path / "data")
    model = open_artifact(tmp_path / "model").manifest
    assert forgotten_since(model, data) == 2
    assert forgotten_since({"kind": "popularity"}, data) is None
    fit_model(Popularity, data).save(tmp_path / "model")
    again = open_artifact(tmp_path / "model").manifest
    assert forgotten_since(again, data) == 0
    assert [note["users"] for note in again["data"]["forgotten"]] == [2]
    assert data_entry(data)["folder"] != model["data"]["folder"]
    Popularity.load(tmp_path / "model").save(tmp_path / "copy")
    assert open_artifact(tmp_path / "copy").manifest["data"] == again["data"]
