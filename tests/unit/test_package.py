"""The package: public names, version, errors, extras, configuration."""

import os
import pickle
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import nextquery
from nextquery import errors
from nextquery._version import __version__
from nextquery.config import Section, from_overrides, load_config, shipped_configs, stored_section
from nextquery.errors import (
    EXTRAS,
    MissingDependencyError,
    NextqueryError,
    missing_message,
    require,
)
from nextquery.model.settings import RunConfig


def test_the_public_names() -> None:
    assert nextquery.__all__ == [
        "HRED",
        *("ArtifactError", "BlocklistError", "ChecksumError", "ConfigError", "InputError"),
        *("LogError", "MissingDependencyError", "NextqueryError", "PreparedData", "ScoredQuery"),
        *("Suggester", "Suggestion", "TrainingError", "__version__"),
        *("fit", "load", "prepare", "run_experiment", "train"),
    ]
    assert dir(nextquery) == sorted(nextquery.__all__)
    assert all(hasattr(nextquery, name) for name in nextquery.__all__)


def test_every_error_is_public() -> None:
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert defined <= set(nextquery.__all__)


def test_every_public_function_has_an_example() -> None:
    for name in ("fit", "load", "prepare", "run_experiment", "train", "PreparedData", "HRED"):
        assert ">>> " in (getattr(nextquery, name).__doc__ or ""), name


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = {"torch", "polars", "numpy", "pydantic", "typer"}
    code = f"import nextquery, sys; print(sorted(set(sys.modules) & {heavy}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_package_leaves_the_process_alone() -> None:
    code = "import os; before = dict(os.environ); import nextquery; print(os.environ == before)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "True"


def test_the_command_sets_the_allocators_where_nobody_else_has() -> None:
    code = (
        "import os, sys; from nextquery.cli.main import run\n"
        "sys.argv = ['nextquery', '--version']\n"
        "import contextlib\n"
        "with contextlib.suppress(SystemExit): run()\n"
        "print(os.environ['ARROW_DEFAULT_MEMORY_POOL'])"
    )
    for preset, expected in (
        ({}, "system"),
        ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc"),
    ):
        kept = {key: value for key, value in os.environ.items() if "MEMORY_POOL" not in key}
        command = [sys.executable, "-c", code]
        env = kept | preset
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
        assert done.stdout.split()[-1] == expected


def test_the_package_and_its_metadata_have_the_same_version() -> None:
    assert nextquery.__version__ == __version__ == version("nextquery")
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_the_changelog_names_it() -> None:
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[{re.escape(__version__)}\] - ", changelog, re.M)


KINDS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.NextqueryError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_the_common_base_and_survives_a_pipe(
    kind: type[errors.NextqueryError],
) -> None:
    again = pickle.loads(pickle.dumps(kind("what, where, how to fix")))
    assert type(again) is kind
    assert str(again) == "what, where, how to fix"
    assert kind.__doc__


def test_bad_input_and_bad_files_have_different_errors() -> None:
    assert issubclass(errors.LogError, errors.InputError)
    assert issubclass(errors.ConfigError, errors.InputError)
    assert issubclass(errors.BlocklistError, errors.InputError)
    assert issubclass(errors.ChecksumError, errors.ArtifactError)
    assert not issubclass(errors.ArtifactError, errors.InputError)


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


def test_a_module_that_belongs_to_no_extra() -> None:
    assert missing_message("polars") == "polars is not installed: pip install nextquery"
    assert missing_message("no_such_module") is None


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
        item.name: Version(spec.version)
        for item in wanted
        for spec in item.specifier
        if item.name not in ("nextquery", "torch")
    }
    listed = (ROOT / "constraints-oldest.txt").read_text("utf-8").splitlines()
    oldest = [Requirement(line) for line in listed if not line.startswith("#")]
    run = {item.name: Version(spec.version) for item in oldest for spec in item.specifier}
    assert run == floors


class Small(Section):
    """A section with a bound."""

    depth: int = 3
    name: str = "x"


def test_every_shipped_config_is_valid() -> None:
    assert {"tiny", "small", "paper"} <= set(shipped_configs())
    for name in shipped_configs():
        load_config(RunConfig, name)


def test_overrides_have_the_types_of_their_settings() -> None:
    assert from_overrides(Small, ["depth=5", "name=y"]) == Small(depth=5, name="y")


@pytest.mark.parametrize("override", ["depth", "depth=many", "deep=1", "=1"])
def test_a_bad_override_is_named(override: str) -> None:
    with pytest.raises(NextqueryError) as refused:
        from_overrides(Small, [override])
    assert override.split("=")[0] in str(refused.value)


def test_a_stored_section_of_another_shape_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(NextqueryError, match=str(tmp_path)):
        stored_section(Small, {"depth": "many"}, tmp_path)
