"""The nightly job of docs/how-to/nightly-updates.md runs as written and reloads a service."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import RunningService, ServiceStarter

from nextquery import fit, prepare, train
from nextquery.artifacts import open_artifact
from nextquery.logs.synthetic.log import write_log
from nextquery.service.keys import new_key
from nextquery.suggesters.loading import fingerprint, write_check

ROOT = Path(__file__).parents[2]
JOB, _, RELOAD = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "nightly.yaml").read_text())


def _script() -> str:
    page = (ROOT / "docs" / "how-to" / "nightly-updates.md").read_text(encoding="utf-8")
    [script] = re.findall(r"^```sh\n(#!/bin/sh -e\n# nightly.sh.*?)^```$", page, re.M | re.S)
    return str(script)


def test_the_cron_job_has_the_lines_of_the_script() -> None:
    container = JOB["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    lines, script = container["args"][0].splitlines(), _script().splitlines()[2:]
    assert [*lines[:-2], lines[-1]] == [*script[:-2], script[-1]]
    assert container["command"] == ["/bin/sh", "-ec"]
    assert lines[-2] == "python /scripts/reload.py"


def _versions(service: RunningService) -> dict[str, str]:
    return {model["name"]: model["version"] for model in service.get("/v1/models").json()["models"]}


@pytest.mark.timeout(1200)
@pytest.mark.skipif(not shutil.which("curl"), reason="the script asks for the reload with curl")
def test_two_nights_with_a_gate(tmp_path: Path, start_service: ServiceStarter) -> None:
    """A good model goes live; that of the first night, trained at an absurd rate, does not."""
    write_log(tmp_path / "synthetic.tsv", 2000, seed=1)
    header, *lines = (tmp_path / "synthetic.tsv").read_text().splitlines(keepends=True)
    lines.sort(key=lambda line: line.split("\t")[2])
    cuts = [len(lines) * share // 20 for share in (18, 19, 20)]
    (tmp_path / "old.tsv").write_text("".join([header, *lines[: cuts[0]]]))
    data = prepare(
        tmp_path / "old.tsv", tmp_path / "data", spelling=False, min_users=1, split_days="1,1,1"
    )
    models, key = tmp_path / "models", new_key("night")
    (tmp_path / "admin-key").write_text(key.key)
    fit(data, "adjacency", models / "adjacency")
    fit(data, "popularity", models / "trends", trending_days=7)
    train(data, models / "hred", "tiny", ["model.copy=false", "train.epochs=4"])
    until = _made_from(models / "hred")["until"]
    options = ("--fallback", models / "adjacency", "--compare", f"trends={models / 'trends'}")
    service = start_service(
        models / "hred", *options, "--require-check", NEXTQUERY_ADMIN_KEYS=key.line
    )
    (models / "hred-next.training").mkdir()  # the night before was cut off
    (tmp_path / "logs").mkdir()
    codes, notes, live = [], [], [_versions(service)]
    for night in range(2):
        day = f"night-{night}"
        with gzip.open(tmp_path / "logs" / f"{day}.tsv.gz", "wt") as file:
            file.write("".join([header, *lines[cuts[night] : cuts[night + 1]]]))
        script = _script().replace("$(date -u -d yesterday +%F)", day)
        # A small log: a few hits decide.
        script = script.replace("--promote", "--promote --min-users 2 --tolerance 0.5")
        if night == 0:
            script = script.replace("--replay 1", "--replay 1 --set train.rate=2")
        ended = _run(_placed(script, tmp_path, service), tmp_path)
        codes.append(ended.returncode)
        live.append(_versions(service))
        notes.append(json.loads((models / "hred-next.check.json").read_text()))
        reloaded = json.loads(ended.stdout.splitlines()[-1])
        assert reloaded.keys() == {*live[0], "fallback"}
        assert all(reloaded[name] == version for name, version in live[-1].items())
        changes = open_artifact(tmp_path / "data").manifest["revisions"][-1]
        assert (changes["added_files"], changes["keep_days"]) == (1, 90)
    assert codes == [1, 0], [note["reasons"] for note in notes]
    hred = [versions["hred"] for versions in live]
    assert [before != after for before, after in pairwise(hred)] == [False, True]
    trends = [versions["trends"] for versions in live]
    assert len(set(trends)) == 3  # what needs no check follows every night
    assert _made_from(models / "hred")["until"] > until
    assert open_artifact(models / "hred").manifest["earlier"]["new"] > 0

    code = RELOAD["data"]["reload.py"].replace("/keys/admin-key", str(tmp_path / "admin-key"))
    host, port = service.url.removeprefix("http://").split(":")
    asked = code.replace("nextquery-pods", host).replace("8000", port)
    reload = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert reload.returncode == 0, reload.stderr
    assert reload.stdout.startswith(host)


def test_a_reload_refuses_a_model_that_was_not_checked(
    served_models: dict[str, Path], tmp_path: Path, start_service: ServiceStarter
) -> None:
    key, model = new_key("night"), tmp_path / "model"
    shutil.copytree(served_models["adjacency"], model)
    service = start_service(model, "--require-check", NEXTQUERY_ADMIN_KEYS=key.line)

    def reload() -> Any:
        return service.post("/admin/reload", {}, **{"X-Admin-Key": key.key})

    assert reload().status_code == 200  # still the model that is served
    shutil.rmtree(model)
    shutil.copytree(served_models["popularity"], model)
    served = _versions(service)
    refused = reload()
    assert refused.status_code == 409
    assert "was not checked" in refused.json()["detail"]
    assert _versions(service) == served
    write_check(model, {"passed": True}, fingerprint(model))
    assert reload().status_code == 200
    assert _versions(service) != served


def _made_from(model: Path) -> Any:
    return open_artifact(model).manifest["data"]


def _placed(script: str, home: Path, service: RunningService) -> str:
    """The script with the folders and the address of this test."""
    locations = {
        "/srv/nextquery": home,
        "/var/log/search": home / "logs",
        "/run/secrets/admin-key": home / "admin-key",
        "http://127.0.0.1:8000": service.url,
    }
    for written, here in locations.items():
        assert written in script
        script = script.replace(written, str(here))
    return script


def _run(script: str, home: Path) -> subprocess.CompletedProcess[str]:
    (home / "nightly.sh").write_text(script)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-e", home / "nightly.sh"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
    )
