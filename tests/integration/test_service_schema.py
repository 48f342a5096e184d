"""Schemathesis reads the service's own OpenAPI document and tries to prove it wrong."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nextquery.service.keys import new_key

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_schemathesis_finds_nothing(
    start_service: Any, served_models: dict[str, Path], tmp_path: Path
) -> None:
    key, admin = new_key("tester"), new_key("operator")
    # A model with gates stands under every name: what a count model cannot explain is answered by a
    # documented 501, which counts as a fault here.
    service = start_service(
        served_models["hred"], "--compare", f"trends={served_models['hred']}",
        "--feedback", tmp_path / "feedback", "--budget-ms", "20000",
        "--queue-size", "100", "--public", "docs", "--score", "--user-days", "30",
        NEXTQUERY_KEYS=key.line, NEXTQUERY_ADMIN_KEYS=admin.line,
    )  # fmt: skip
    ended = subprocess.run(
        [
            "schemathesis", "run", service.url + "/openapi.json",
            "--header", f"X-API-Key: {key.key}", "--header", f"X-Admin-Key: {admin.key}",
            "--mode", "all", "--phases", "examples,coverage,fuzzing,stateful",
            "--max-examples", "10", "--seed", "1", "--workers", "1", "--request-timeout", "60",
            "--exclude-path", "/admin/kill-switch",
        ],
        capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    assert "No issues found" in ended.stdout


@pytest.mark.slow
def test_every_link_of_the_document_is_followed(
    start_service: Any, served_models: dict[str, Path], tmp_path: Path
) -> None:
    service = start_service(
        served_models["adjacency"], "--feedback", tmp_path / "feedback", "--budget-ms", "20000"
    )
    ended = subprocess.run(
        [
            "schemathesis", "run", service.url + "/openapi.json", "--phases", "stateful",
            "--max-examples", "10", "--seed", "1", "--workers", "1", "--request-timeout", "60",
            "--exclude-path", "/v1/explain",
        ],
        capture_output=True, text=True, timeout=250, check=False, cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    assert "3 covered / 3 selected / 3 total" in ended.stdout
