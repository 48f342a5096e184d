"""docs/how-to/serve.md names every route and metric; deployment examples use existing options."""

import re
from dataclasses import replace
from pathlib import Path

from nextquery.service.answering import build_service
from nextquery.service.app import build_api
from nextquery.service.keys import new_key
from nextquery.service.monitoring import Metrics
from nextquery.service.settings import ServiceSettings

ROOT = Path(__file__).parents[3]
SERVICE = (ROOT / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")


def test_every_route_is_documented(settings: ServiceSettings, tmp_path: Path) -> None:
    (tmp_path / "admin").write_text(new_key("operator").line)
    service = build_service(replace(settings, admin_keys_file=tmp_path / "admin"))
    paths = build_api(service).openapi()["paths"]
    assert len(paths) >= 13
    for path, methods in paths.items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in SERVICE


def test_every_metric_is_documented() -> None:
    for family in Metrics().registry.collect():
        total = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"`{total}`" in SERVICE


def test_the_kubernetes_example_uses_options_that_exist() -> None:
    example = (ROOT / "deploy" / "kubernetes" / "nextquery.yaml").read_text(encoding="utf-8")
    cli = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    options = re.findall(r"^ +- (--[a-z-]+)=", example, re.M)
    assert len(options) >= 6
    for option in options:
        assert f"`{option}" in cli


def test_the_nightly_job_uses_commands_and_options_that_exist() -> None:
    nightly = (ROOT / "deploy" / "kubernetes" / "nightly.yaml").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "nightly-updates.md").read_text(encoding="utf-8")
    cli = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ *(nextquery (?:update|fit|train) data .*)$", f"{nightly}\n{page}", re.M)
    assert len(lines) >= 8
    for line in lines:
        command, options = line.split()[1], re.findall(r" (--[a-z-]+)", line)
        section = cli.split(f"## nextquery {command}\n")[1].split("\n## ")[0]
        assert options
        assert all(f"`{option}" in section for option in options)
