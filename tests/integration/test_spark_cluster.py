"""`prepare` and `fit` on a standalone Spark cluster, which loses a worker on the way."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import polars as pl
import pytest
from tests.integration.spark_cluster import SparkCluster, spark_cluster

from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

# One cluster serves all of it: to start one takes longer than the work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in a folder of many files."""
    folder = tmp_path_factory.mktemp("logs")
    write_log(folder / "all", 250, seed=3)
    header, *lines = (folder / "all").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "all").unlink()
    for number in range(12):
        part = "".join(lines[number * len(lines) // 12 : (number + 1) * len(lines) // 12])
        (folder / f"part-{number:02}.tsv").write_text(header + part, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def local(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one machine makes of the log."""
    out = tmp_path_factory.mktemp("local") / "data"
    settings = PrepareSettings(engine="polars", min_users=2, spelling=False, journal=False)
    prepare([log], out, settings)
    return out


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    if not (util.find_spec("pyspark") and shutil.which("java")):
        pytest.skip("Spark needs the extra 'spark' and Java")
    with spark_cluster(tmp_path_factory.mktemp("spark") / "cluster") as found:
        yield found


def _start(cluster: SparkCluster, *arguments: str) -> subprocess.Popen[str]:
    spark = ("--engine", "spark", "--spark-master", cluster.master)
    return subprocess.Popen(
        [sys.executable, "-m", "nextquery", *arguments, *spark],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _finish(job: subprocess.Popen[str]) -> None:
    shown, _ = job.communicate()
    assert job.returncode == 0, shown


def _wait_for_first_table(out: Path, job: subprocess.Popen[str]) -> None:
    """Until the workers have written a table, in the folder that is not yet published."""
    while not any(out.parent.rglob("_SUCCESS")):
        assert job.poll() is None, job.communicate()[0]
        time.sleep(0.05)


def test_a_cluster_makes_the_tables_of_one_machine_though_it_loses_a_worker(
    cluster: SparkCluster, log: Path, local: Path, tmp_path: Path
) -> None:
    doomed = cluster.add_worker("first")
    cluster.add_worker("second")
    out = tmp_path / "data"
    # Without what `test_prepare` tries with Spark on one machine: every table costs seconds here.
    options = ("--min-users", "2", "--no-spelling", "--no-journal")
    with _start(cluster, "prepare", log.as_uri(), "--out", str(out), *options) as job:
        try:
            _wait_for_first_table(out, job)
            cluster.kill(doomed)
            _finish(job)
        finally:
            job.kill()
    tables = sorted(path.relative_to(local) for path in local.rglob("*.parquet"))
    tables = [path for path in tables if path.parts[0] in ("sessions", "counts")]
    assert len(tables) == 9
    for table in tables:
        one, other = (pl.read_parquet(folder / table) for folder in (local, out))
        assert one.equals(other), table
    assert (out / "vocabulary.txt").read_bytes() == (local / "vocabulary.txt").read_bytes()

    # What is left of the cluster counts for a model, too.
    model = tmp_path / "model"
    with _start(cluster, "fit", str(out), "--kind", "adjacency", "--out", str(model)) as job:
        _finish(job)
    fit_model(Adjacency, PreparedData(out)).save(tmp_path / "here")
    one, other = (
        json.loads((folder / "manifest.json").read_text())["files"]
        for folder in (model, tmp_path / "here")
    )
    assert one == other
