"""The public names of the package, and what importing it costs."""

import os
import subprocess
import sys

import pytest

import nextquery
from nextquery import errors


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


def test_other_names_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lead'"):
        _ = nextquery.lead


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
    for given, expected in (
        ({}, "system"),
        ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc"),
    ):
        kept = {key: value for key, value in os.environ.items() if "MEMORY_POOL" not in key}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=kept | given)
        assert done.stdout.split()[-1] == expected


def test_the_count_models_run_without_torch() -> None:
    code = (
        "import sys; from nextquery.suggesters.loading import COUNT_MODELS, count_model\n"
        "[count_model(kind) for kind in COUNT_MODELS]\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
