import ast
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app, in_options, option_names

SOURCE = Path(__file__).parents[3] / "src" / "nextquery"


def test_settings_of_a_message_become_options() -> None:
    options = {"out": "--out", "columns": "--columns"}

    assert (
        in_options("x: a file; `out` needs a folder", options) == "x: a file; --out needs a folder"
    )
    assert in_options("try `columns=user=a`", options) == "try --columns user=a"
    assert in_options("try `clusters=words`", options) == "try --set clusters=words"
    assert in_options("`nothing` of ours", options) == "nothing of ours"


def test_options_are_found_by_the_name_of_their_setting() -> None:
    names = option_names(app)

    assert names["min_users"] == "--min-users"
    assert names["overrides"] == "--set"
    assert names["assessors"] == "--assessors"  # of a sub-command


@pytest.mark.parametrize(
    "module",
    [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "cli"],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_the_library_names_settings_and_no_options(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    texts = [
        part.value
        for node in raised
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]

    assert not [text for text in texts if re.search(r"(?<![\w-])--[a-z{]?", text)]


def test_an_error_names_the_option(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["fit", str(tmp_path), "--kind", "none", "--out", "x"])

    assert result.exception is not None
    assert "`kind`" in str(result.exception)
