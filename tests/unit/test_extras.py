import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from nextquery.errors import MissingDependencyError
from nextquery.extras import (
    EXTRAS,
    extra_of,
    installed_version,
    missing,
    missing_message,
    require,
)

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
IMPORTED_AS = {"scikit-learn": "sklearn", "opensearch-py": "opensearchpy"}


def test_the_table_says_what_the_metadata_says() -> None:
    for extra, modules in EXTRAS.items():
        wanted = PROJECT["optional-dependencies"][extra]
        # What only some systems have cannot be asked for.
        everywhere = [Requirement(text) for text in wanted if not Requirement(text).marker]
        names = {needed.name for needed in everywhere} - {"nextquery"}
        imported = {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}
        assert imported <= set(modules)


def test_a_service_alone_lists_what_its_extra_asks_for() -> None:
    lines = (ROOT / "deploy" / "requirements-serve.txt").read_text("utf-8").splitlines()
    listed = {line for line in lines if not line.startswith("#")}
    serve = {Requirement(text).name for text in PROJECT["optional-dependencies"]["serve"]}
    core = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert serve <= listed <= serve | core
    assert not listed & {"polars", "pyarrow", "duckdb", "narwhals"}


@pytest.mark.parametrize(
    ("extras", "calls"),
    [
        ("", ["--requirement requirements-serve.txt redis", "--no-deps ."]),
        ("serve,train", [".[serve,train]"]),
    ],
)
def test_the_image_installs_what_serving_needs(
    tmp_path: Path, extras: str, calls: list[str]
) -> None:
    """The build stage of the Dockerfile, its shell command run with a pip that only takes notes."""
    build = (ROOT / "deploy" / "Dockerfile").read_text("utf-8").split("\nFROM ")[1]
    for line in re.findall(r"^COPY (.+)$", build, re.M):
        assert all((ROOT / source).exists() for source in line.split()[:-1]), line
    [command] = re.findall(r"^RUN (if (?:.*\\\n)+.*)$", build, re.M)
    pip = tmp_path / "pip"
    pip.write_text('#!/bin/sh\necho "$*"\n')
    pip.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "EXTRAS": extras}
    done = subprocess.run(
        ["sh", "-ec", command], env=environment, capture_output=True, text=True, check=True
    )
    printed = done.stdout.splitlines()
    assert len(printed) == len(calls)
    assert all(line.endswith(call) for line, call in zip(printed, calls, strict=True)), printed


def test_nothing_heavy_is_in_the_core() -> None:
    core = {name.split(">")[0] for name in PROJECT["dependencies"]}
    heavy = {"torch", "lightgbm", "scikit-learn", "scipy", "matplotlib", "fastapi", "numba"}
    assert not core & heavy


def test_torch_is_a_range_in_the_metadata_and_pinned_in_the_constraints() -> None:
    assert PROJECT["optional-dependencies"]["neural"] == ["torch>=2.13"]
    constraints = (ROOT / "constraints.txt").read_text("utf-8")
    assert "\ntorch==2.13.0\n" in constraints


def test_a_module_that_belongs_to_no_extra() -> None:
    assert extra_of("polars") is None
    assert missing_message("no_such_module") is None
    assert installed_version("no-such-package") is None


def test_what_is_installed_is_not_missing() -> None:
    assert all(missing(extra) == () for extra in EXTRAS)
    assert installed_version("polars")


def test_what_is_required_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    require("train")
    monkeypatch.setitem(EXTRAS, "train", ("torch", "no_such_module"))
    with pytest.raises(MissingDependencyError, match=r"no_such_module .* 'nextquery\[train\]'"):
        require("train")


def test_the_oldest_versions_that_were_run_are_the_floors_of_the_metadata() -> None:
    """`constraints-oldest.txt` is what the metadata allows; PyTorch is pinned by hand."""
    left_out = {"all", "dev", "onnx", "spark"}
    extras = [
        names for name, names in PROJECT["optional-dependencies"].items() if name not in left_out
    ]
    wanted = [Requirement(text) for text in sum(extras, PROJECT["dependencies"])]
    floors = {
        each.name: Version(spec.version)
        for each in wanted
        for spec in each.specifier
        if each.name not in ("nextquery", "torch")
    }
    listed = (ROOT / "constraints-oldest.txt").read_text("utf-8").splitlines()
    oldest = [Requirement(line) for line in listed if not line.startswith("#")]
    run = {each.name: Version(spec.version) for each in oldest for spec in each.specifier}
    assert run == floors
