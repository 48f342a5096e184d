"""The wheel in environments that hold the core, or one extra, and nothing else."""

import contextlib
import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from .bare_environment import BareEnvironment, make_environment, with_extra, with_requirements

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LARGEST_CORE = 350 << 20
"""Bytes of the installed packages."""
CORE_COMMANDS = (
    ("--help",),
    ("synth", "log.tsv", "--sessions", "1500"),
    ("prepare", "log.tsv", "--out", "data", "--no-spelling"),
    ("inspect", "data"),
    ("fit", "data", "--kind", "adjacency", "--out", "adj"),
    ("suggest", "adj", "paris", "--json"),
    ("score", "adj", "--context", "paris", "--candidate", "paris hotels"),
    ("why", "adj", "paris hotels"),
)


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    return _with_model(make_environment(tmp_path_factory.mktemp("core"), wheel))


@pytest.fixture(scope="module")
def serve(core: BareEnvironment, tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    made = with_extra(core, tmp_path_factory.mktemp("serve"), "serve")
    (made.work / "adj").symlink_to(core.work / "adj")
    return made


@pytest.fixture(scope="module")
def image(core: BareEnvironment, tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    """What `deploy/Dockerfile` installs unless it is told otherwise."""
    lines = (ROOT / "deploy" / "requirements-serve.txt").read_text("utf-8").splitlines()
    names = [line for line in lines if not line.startswith("#")]
    made = with_requirements(core, tmp_path_factory.mktemp("image"), [*names, "redis"])
    (made.work / "adj").symlink_to(core.work / "adj")
    return made


@pytest.fixture(scope="module")
def neural(core: BareEnvironment, tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    made = with_extra(core, tmp_path_factory.mktemp("neural"), "neural")
    (made.work / "adj").symlink_to(core.work / "adj")
    (made.work / "data").symlink_to(core.work / "data")
    return made


def _with_model(environment: BareEnvironment) -> BareEnvironment:
    for words in CORE_COMMANDS:
        environment.run(*words)
    return environment


def _refused(environment: BareEnvironment, *words: str) -> str:
    """The one line with which a command that lacks its extra ends."""
    done = environment.run(*words, code=2)
    [line] = done.stderr.splitlines()
    return line


def test_the_core_has_few_packages_and_suggests(core: BareEnvironment) -> None:
    answer = json.loads(core.run("suggest", "adj", "paris", "--json").stdout)

    assert core.packages >= {"polars", "narwhals"}
    heavy = {"torch", "fastapi", "lightgbm", "scipy", "pandas", "pyarrow", "duckdb"}
    assert not core.packages & heavy
    assert core.size() < LARGEST_CORE
    assert answer["suggestions"]
    assert "(extras: none)" in core.run("--version").stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("train", "data", "--out", "hred"), "train"),
        (("serve", "adj"), "serve"),
        (("experiment", "data", "--model", "adj", "--out", "report"), "experiment"),
        (("study", "report", "folder"), "experiment"),
        (("inspect", "data", "--figure", "lengths.png"), "experiment"),
        (("prepare", "log.tsv", "--engine", "duckdb", "--out", "d"), "duckdb"),
        (("fit", "data", "--kind", "adjacency", "--engine", "spark", "--out", "s"), "spark"),
        (("demo", "--no-serve"), "all"),
    ],
)
def test_the_core_names_the_extra_that_a_command_needs(
    core: BareEnvironment, words: tuple[str, ...], extra: str
) -> None:
    line = _refused(core, *words)

    assert re.fullmatch(rf"error: .*: pip install 'nextquery\[{extra}\]'", line)


def test_the_bill_of_materials_names_every_package(core: BareEnvironment) -> None:
    out = core.work / "bill.json"
    script = ROOT / "scripts" / "bill-of-materials"
    subprocess.run([str(script), str(out), str(core.python)], check=True, capture_output=True)
    bill = json.loads(out.read_text("utf-8"))

    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "nextquery"
    names = {re.sub(r"[-_.]+", "-", part["name"]).lower() for part in bill["components"]}
    assert core.packages <= names


@pytest.mark.parametrize("installation", ["serve", "image"])
def test_the_service_answers_with_its_packages_alone(
    installation: str, request: pytest.FixtureRequest
) -> None:
    environment: BareEnvironment = request.getfixturevalue(installation)
    assert not environment.packages & {"torch", "lightgbm", "httpx"}
    if installation == "image":
        assert not environment.packages & {"polars", "narwhals", "pyarrow", "duckdb"}
    with environment.started("serve", "adj", "--port", "0", "--drain-seconds", "0") as process:
        try:
            address = _address(process)
            assert b"<html" in _got(f"{address}/")
            body = json.dumps({"query": "paris"}).encode()
            assert json.loads(_got(f"{address}/v1/suggest", body))["suggestions"]
        finally:
            process.terminate()


def _address(process: subprocess.Popen[str]) -> str:
    """Where the service says that it serves; it answers there as soon as its models are open."""
    assert process.stderr is not None
    for line in process.stderr:
        if '"serving"' in line:
            address = str(json.loads(line)["url"]).rstrip("/")
            _wait(f"{address}/readyz")
            return address
    raise AssertionError(f"it ended with {process.wait()}")


def _wait(address: str, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(urllib.error.URLError):
            _got(address)
            return
        time.sleep(0.05)
    raise AssertionError(f"{address} was not ready in {seconds} s")


def _got(address: str, body: bytes | None = None) -> bytes:
    asked = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=300) as answer:
        return bytes(answer.read())


def test_the_network_suggests_with_its_extra_alone(
    neural: BareEnvironment, served_models: dict[str, Path]
) -> None:
    answer = json.loads(neural.run("suggest", served_models["hred"], "paris", "--json").stdout)

    assert "tensorboard" not in neural.packages
    assert answer["model"] == "hred"
    assert answer["suggestions"]
    line = _refused(neural, "train", "data", "--out", "hred")
    assert line == "error: tensorboard is not installed: pip install 'nextquery[train]'"
