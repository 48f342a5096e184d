from pathlib import Path

from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log


def test_what_was_added_is_said(tmp_path: Path) -> None:
    write_log(tmp_path / "log.tsv", 200, 1)
    rows = len((tmp_path / "log.tsv").read_text().splitlines()) - 1
    prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(spelling=False))
    arguments = ["update", str(tmp_path / "data"), str(tmp_path / "log.tsv")]
    shown = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "more")])
    assert f"{rows:,} rows added, 0 removed" in shown.stdout
    assert (tmp_path / "more" / "manifest.json").is_file()
