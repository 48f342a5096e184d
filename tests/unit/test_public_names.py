"""The public names of the package, and what importing it costs."""

import os
import subprocess
import sys

import pytest

import nextquery


def test_the_public_names() -> None:
    assert nextquery.__all__ == ["HRED", "__version__", "load"]
    assert dir(nextquery) == nextquery.__all__
    assert all(hasattr(nextquery, name) for name in nextquery.__all__)


def test_other_names_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lead'"):
        _ = nextquery.lead


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = {"torch", "polars", "numpy", "pydantic", "typer"}
    code = f"import nextquery, sys; print(sorted(set(sys.modules) & {heavy}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_allocators_settings_are_a_default_only() -> None:
    code = "import nextquery, os; print(os.environ['ARROW_DEFAULT_MEMORY_POOL'])"
    for given, expected in (
        ({}, "system"),
        ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc"),
    ):
        kept = {key: value for key, value in os.environ.items() if "MEMORY_POOL" not in key}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=kept | given)
        assert done.stdout.strip() == expected


def test_the_count_models_run_without_torch() -> None:
    code = (
        "import sys; from nextquery.suggesters.loading import COUNT_MODELS, count_model\n"
        "[count_model(kind) for kind in COUNT_MODELS]\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
