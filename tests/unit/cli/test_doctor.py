import json

import pytest
from typer.testing import CliRunner

from nextquery.cli.doctor import COMMANDS
from nextquery.cli.main import app
from nextquery.extras import EXTRAS


def test_every_extra_is_named_with_its_commands() -> None:
    assert set(COMMANDS) == {"core", *EXTRAS}


@pytest.fixture
def few_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extras that are imported quickly, and one that is not there: all of them take long."""
    few = {"redis": ("redis",), "excel": ("python_calamine",), "spark": ("no_such_module",)}
    monkeypatch.setattr("nextquery.extras.EXTRAS", few)


@pytest.mark.slow
@pytest.mark.usefixtures("few_extras")
def test_what_is_installed_is_told() -> None:
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)["extras"]

    assert list(found) == ["core", "redis", "excel", "spark"]
    assert found["redis"]["missing"] == []
    assert found["core"]["import_seconds"] > 0
    assert found["redis"]["import_seconds"] > 0
    assert found["spark"] == {"missing": ["no_such_module"], "import_seconds": None}


@pytest.mark.usefixtures("few_extras")
def test_what_is_missing_is_told_with_what_to_install() -> None:
    lines = CliRunner().invoke(app, ["doctor"]).stdout.splitlines()

    assert lines[0].startswith("Python ")
    assert [line.split()[:2] for line in lines[1:]] == [
        ["installed", "core"], ["installed", "redis"], ["installed", "excel"], ["missing", "spark"],
    ]  # fmt: skip
    assert "pip install 'nextquery[spark]'   (lacks no_such_module)" in lines[-1]
