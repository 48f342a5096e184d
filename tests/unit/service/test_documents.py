"""docs/reference/http-api.md names every route; deployment examples use existing options."""

import re
from dataclasses import replace
from pathlib import Path

from typer.core import TyperGroup
from typer.main import get_command

from nextquery.cli.main import app
from nextquery.service.answering import build_service
from nextquery.service.app import build_api
from nextquery.service.keys import new_key
from nextquery.service.settings import ServiceSettings

ROOT = Path(__file__).parents[3]
REFERENCE = (ROOT / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")


def test_every_route_is_documented(settings: ServiceSettings, tmp_path: Path) -> None:
    (tmp_path / "admin").write_text(new_key("operator").line)
    service = build_service(replace(settings, admin_keys_file=tmp_path / "admin"))
    paths = build_api(service).openapi()["paths"]
    assert len(paths) >= 13
    for path, methods in paths.items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in REFERENCE


def test_the_kubernetes_example_uses_options_that_exist() -> None:
    example = (ROOT / "deploy" / "kubernetes" / "nextquery.yaml").read_text(encoding="utf-8")
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    known = {spelt for parameter in group.commands["serve"].params for spelt in parameter.opts}
    options = re.findall(r"^ +- (--[a-z-]+)=", example, re.M)
    assert len(options) >= 6
    assert set(options) <= known
