import json
from pathlib import Path

from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log


def test_trends_are_shown_as_text_and_as_data(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 300, 1)
    prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(spelling=False))
    arguments = ["trends", str(tmp_path / "data"), "--min-users", "5"]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert "against the days from" in shown
    document = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert set(document) == {"first_day", "last_day", "past_from", "queries_tested", "trends"}
