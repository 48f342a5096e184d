"""A command imports its own module only; the table has every command."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import MODULES, PANELS, LazyCommands, app

HEAVY = {"polars", "pyarrow", "duckdb", "narwhals", "torch", "rich", "bm25s"}


@pytest.mark.parametrize("name", MODULES)
def test_every_command_of_the_table_is_there(name: str) -> None:
    assert LazyCommands()[name].name == name


def test_help_groups_the_commands_in_panels() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    starts = [shown.index(f"─ {title} ─") for title in PANELS]
    for (title, commands), start, end in zip(
        PANELS.items(), starts, [*starts[1:], len(shown)], strict=True
    ):
        panel = shown[start:end]
        assert [name for name in MODULES if f"│ {name} " in panel] == list(commands), title
    assert len(next(iter(PANELS.values()))) == 8


def test_a_mistyped_command_is_guessed() -> None:
    result = CliRunner().invoke(app, ["sugest"])

    assert result.exit_code == 2
    assert "suggest" in result.output


def test_suggesting_with_a_count_model_imports_little(served_models: dict[str, Path]) -> None:
    code = (
        "import sys; from nextquery.cli.entry import run\n"
        f"sys.argv = ['nextquery', 'suggest', {str(served_models['adjacency'])!r}, 'paris']\n"
        "try: run()\n"
        "except SystemExit: print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported = set(done.stdout.splitlines()[-1].split())

    assert not imported & HEAVY
    commands = {name for name in imported if name in MODULES.values()}
    assert commands == {"nextquery.cli.suggest"}
