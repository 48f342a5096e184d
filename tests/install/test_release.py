"""What a release says of itself: licences, and a workflow that calls what exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"


@pytest.mark.slow
def test_the_licences_of_all_packages_are_listed() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "licences"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_no_package_has_a_licence_that_would_bind_this_one() -> None:
    rows = (
        (ROOT / "docs" / "reference" / "licences.md")
        .read_text("utf-8")
        .split("|---|---|---|\n")[1]
        .splitlines()
    )
    licences = {row.split("|")[1].strip(): row.split("|")[2] for row in rows}
    bound = {name for name, text in licences.items() if re.search(r"\bA?GPL", text)}

    assert len(licences) > 50
    assert not bound
    assert "not stated" not in " ".join(licences.values())


def test_only_the_publishing_job_may_ask_for_a_token() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    asking = [
        name
        for name, job in workflow["jobs"].items()
        if job.get("permissions", {}).get("id-token") == "write"
    ]

    assert workflow["permissions"] == {"contents": "read"}
    assert asking == ["publish"]
    assert "secrets." not in WORKFLOW.read_text("utf-8")


def test_the_workflow_calls_scripts_that_exist() -> None:
    called = set(re.findall(r"scripts/[\w-]+", WORKFLOW.read_text("utf-8")))

    assert called == {"scripts/test", "scripts/bill-of-materials"}
    assert all((ROOT / name).is_file() for name in called)
