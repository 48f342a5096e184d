"""The quick form of the program of promises: every promise is kept, every control fails."""

import json
import os
import subprocess
import sys

import pytest

AREAS = ("artifacts", "commands", "logs", "guards", "service", "pages")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("area", AREAS)
def test_every_promise_of_an_area_is_kept(area: str) -> None:
    command = [sys.executable, "-m", "nextquery", "bench", "reliability", "--quick", "--json"]
    environment = {**os.environ, "NEXTQUERY_RELIABILITY": area}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found = json.loads(done.stdout)
    assert found["promises"] > 0
    broken = [row for row in found["rows"] if f"{row['area']}: {row['promise']}" in found["broken"]]
    assert not broken
