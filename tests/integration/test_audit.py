"""The audit trains HRED on the planted log, if asked: its lists keep what its scores know."""

from pathlib import Path

import pytest

from nextquery import fit, prepare
from nextquery.config import shipped_configs
from nextquery.evaluation.audit import audit
from nextquery.evaluation.settings import AuditSettings, PlantingSettings
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.synthetic.log import write_log
from nextquery.model.settings import KIND

FEW = PlantingSettings(
    canary_users=(0, 1, 8), canaries=3, fake_users=(2, 20), contexts=2, decoys=63
)
CHANGED = {"epochs = 6": "epochs = 3", "copy = true": "copy = false"}


@pytest.mark.slow
def test_hred_is_trained_on_the_planted_log(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 1500, seed=1)
    prepare(tmp_path / "log.tsv", tmp_path / "data", spelling=False)
    fit(tmp_path / "data", "adjacency", tmp_path / "model")
    config = shipped_configs()["tiny"].read_text(encoding="utf-8")
    for old, new in CHANGED.items():
        assert old in config
        config = config.replace(old, new)
    (tmp_path / "short.toml").write_text(config, encoding="utf-8")
    settings = AuditSettings(min_users=(1,), config=str(tmp_path / "short.toml"), planting=FEW)
    said: list[str] = []
    result = audit(tmp_path / "model", PreparedData(tmp_path / "data"), settings, said.append)
    assert sum("training HRED" in line for line in said) == 1, "once, whatever the number of K"
    by_kind = {exposures.kind: exposures for exposures in result.exposures}
    assert list(by_kind) == ["adjacency", KIND]
    assert [exposure.users for exposure in by_kind[KIND].guarded] == [0, 1, 8]
    bits = [
        [exposure.mean_bits for exposure in side]
        for side in (by_kind[KIND].guarded, by_kind[KIND].unguarded)
    ]
    assert bits[0] == bits[1], "scores know no guard"
    assert by_kind[KIND].guarded[1].shown == 0, "what one person typed is not listed"
    curves = [(curve.kind, curve.min_users) for curve in result.poisoning]
    assert curves == [(kind, k) for kind in ("adjacency", KIND) for k in (1, 3)]
