"""Schemathesis reads the service's own OpenAPI document and tries to prove it wrong."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nextquery.service.keys import new_key

HERE = Path(__file__).parent
KEY, ADMIN = new_key("tester"), new_key("operator")


@pytest.mark.timeout(1200)
def test_schemathesis_finds_nothing_and_follows_every_link(
    start_service: Any, served_models: dict[str, Path], tmp_path: Path
) -> None:
    # A model with gates has every name: what a count model cannot explain is answered by a
    # documented 501, which counts as a fault here.
    service = start_service(
        served_models["hred"], "--compare", f"trends={served_models['hred']}",
        "--feedback", tmp_path / "feedback", "--budget-ms", "60000",
        "--queue-size", "100", "--public", "docs", "--score", "--user-days", "30",
        NEXTQUERY_KEYS=KEY.line, NEXTQUERY_ADMIN_KEYS=ADMIN.line,
    )  # fmt: skip

    def schemathesis(*options: str, **environment: str) -> str:
        keys = "--header", f"X-API-Key: {KEY.key}", "--header", f"X-Admin-Key: {ADMIN.key}"
        limits = "--max-examples", "6", "--seed", "1", "--workers", "1", "--request-timeout", "120"
        ended = subprocess.run(
            ["schemathesis", "run", service.url + "/openapi.json", *keys, *limits, *options],
            capture_output=True, text=True, check=False, cwd=tmp_path,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
        return ended.stdout

    phases = "--mode", "all", "--phases", "examples,coverage,fuzzing"
    assert "No issues found" in schemathesis(*phases, "--exclude-path", "/admin/kill-switch")
    hooks = {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)}
    links = schemathesis("--phases", "stateful", "--exclude-path", "/v1/explain", **hooks)
    assert "3 covered / 3 selected / 3 total" in links
