import json

import pytest
from typer.testing import CliRunner

from nextquery.cli.doctor import COMMANDS
from nextquery.cli.main import app
from nextquery.extras import EXTRAS


def test_every_extra_is_named_with_its_commands() -> None:
    assert set(COMMANDS) == {"core", *EXTRAS}


@pytest.mark.slow
def test_what_is_installed_is_told() -> None:
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)

    assert found["extras"]["neural"]["missing"] == []
    assert found["extras"]["core"]["import_seconds"] > 0
