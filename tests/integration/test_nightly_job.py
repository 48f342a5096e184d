"""The nightly job of docs/operations.md, run as it is written beside a service that it reloads."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import RunningService, ServiceStarter

from nextquery import fit, prepare, train
from nextquery.artifacts import open_artifact
from nextquery.logs.synthetic.log import write_log
from nextquery.service.keys import new_key

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
JOB, _, RELOAD = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "nightly.yaml").read_text())


def _script() -> str:
    [found] = re.findall(r"^```sh\n(#!/bin/sh -e\n# nightly.sh.*?)^```$", PAGE, re.M | re.S)
    return str(found)


def test_the_cron_job_has_the_lines_of_the_script() -> None:
    container = JOB["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    lines = container["args"][0].splitlines()
    assert lines[:-1] == _script().splitlines()[2:-1]
    assert container["command"] == ["/bin/sh", "-ec"]
    assert lines[-1] == "python /scripts/reload.py"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A site's folder as the page sets it up, and the log of yesterday."""
    write_log(tmp_path / "made-up.tsv", 500, seed=1)
    header, *lines = (tmp_path / "made-up.tsv").read_text().splitlines(keepends=True)
    lines.sort(key=lambda line: line.split("\t")[2])
    cut = len(lines) * 9 // 10
    (tmp_path / "old.tsv").write_text("".join([header, *lines[:cut]]))
    day = subprocess.run(
        ["date", "-u", "-d", "yesterday", "+%F"], capture_output=True, text=True, check=True
    )
    (tmp_path / "logs").mkdir()
    with gzip.open(tmp_path / "logs" / f"{day.stdout.strip()}.tsv.gz", "wt") as file:
        file.write("".join([header, *lines[cut:]]))
    data = prepare(
        tmp_path / "old.tsv", tmp_path / "data", spelling=False, min_users=1, split_days=".1,1,.1"
    )
    models = tmp_path / "models"
    fit(data, "adjacency", models / "adjacency")
    fit(data, "popularity", models / "trends", trending_days=7)
    small = ["train.epochs=1", "model.query_size=16", "model.session_size=16", "model.copy=false"]
    train(data, models / "hred", "tiny", small)
    return tmp_path


def _versions(service: RunningService) -> dict[str, str]:
    return {each["name"]: each["version"] for each in service.get("/v1/models").json()["models"]}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl"), reason="the script asks for the reload with curl")
def test_every_line_of_the_night_is_run(home: Path, start_service: ServiceStarter) -> None:
    key = new_key("night")
    (home / "admin-key").write_text(key.key)
    models = home / "models"
    others = ("--fallback", models / "adjacency", "--compare", f"trends={models / 'trends'}")
    service = start_service(models / "hred", *others, NEXTQUERY_ADMIN_KEYS=key.line)
    before, until = _versions(service), _made_from(models / "hred")["until"]
    (models / "hred.training").mkdir()  # the night before was cut off

    ended = _run(_placed(_script(), home, service), home)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    now = _versions(service)
    assert told.keys() == {*before, "fallback"}
    assert all(told[name] == now[name] != version for name, version in before.items())
    changes = open_artifact(home / "data").manifest["revisions"][-1]
    assert (changes["added_files"], changes["keep_days"]) == (1, 90)
    assert _made_from(models / "hred")["until"] > until
    assert open_artifact(models / "hred").manifest["earlier"]["new"] > 0

    code = RELOAD["data"]["reload.py"].replace("/keys/admin-key", str(home / "admin-key"))
    host, port = service.url.removeprefix("http://").split(":")
    asked = code.replace("nextquery-pods", host).replace("8000", port)
    reloaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert reloaded.returncode == 0, reloaded.stderr
    assert reloaded.stdout.startswith(host)


def _made_from(model: Path) -> Any:
    return open_artifact(model).manifest["data"]


def _placed(script: str, home: Path, service: RunningService) -> str:
    """The script with the places of this test."""
    places = {
        "/srv/nextquery": home,
        "/var/log/search": home / "logs",
        "/run/secrets/admin-key": home / "admin-key",
        "http://127.0.0.1:8000": service.url,
    }
    for written, here in places.items():
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
