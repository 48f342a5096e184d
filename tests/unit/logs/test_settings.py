"""The settings of `prepare`: refused values, and that reading them needs nothing heavy."""

import subprocess
import sys
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.logs.settings import PrepareSettings


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"idle_minutes": 0}, "`idle_minutes`: must be 1 or more"),
        ({"max_session_queries": 1}, "`max_session_queries`: must be 2 or more"),
        ({"vocabulary_size": 0}, "`vocabulary_size`: must be 1 or more"),
        ({"min_users": -1}, "`min_users`: must be 1 or more"),
        ({"holdout_users": 1.0}, "`holdout_users` 1.0: give a share below 1"),
    ],
)
def test_values_that_make_no_sense_are_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PrepareSettings(**choice)


def test_the_command_line_reads_defaults_without_polars() -> None:
    code = (
        "import sys; import nextquery.cli.prepare; "
        "print(sorted({'polars', 'pyarrow', 'duckdb', 'torch', 'numpy'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
