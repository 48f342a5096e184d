"""How `nextquery serve` turns options into settings; whole services run in integration."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.service import run
from nextquery.service.keys import read_keys
from nextquery.service.settings import NamedModel, ServiceSettings


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServiceSettings]:
    """The settings that would be served."""
    found: list[ServiceSettings] = []
    monkeypatch.setattr(run, "serve", found.append)
    return found


def test_every_option_reaches_its_setting(
    served: list[ServiceSettings], served_models: dict[str, Path], tmp_path: Path
) -> None:
    one, two = served_models["adjacency"], served_models["popularity"]
    options = {
        "--host": "::1",
        "--port": "0",
        "--compare": f"other={two}",
        "--fallback": str(two),
        "--budget-ms": "70",
        "--workers": "3",
        "--sessions": "redis://127.0.0.1:1/0",
        "--threads": "2",
        "--queue-size": "9",
        "--batch-size": "4",
        "--batch-seconds": "1.5",
        "--max-sessions": "11",
        "--idle-minutes": "5",
        "--cache-size": "12",
        "--rate": "7",
        "--public": "metrics",
        "--trusted-proxy": "10.0.0.0/8",
        "--cors-origin": "https://shop.example",
        "--drain-seconds": "0.5",
        "--kill-switch": str(tmp_path / "off"),
        "--feedback": str(tmp_path / "feedback"),
        "--feedback-days": "30",
        "--feedback-mb": "9",
    }
    words = [word for pair in options.items() for word in pair]
    done = CliRunner().invoke(app, ["serve", str(one), *words])
    assert done.exit_code == 0, done.output
    [settings] = served
    assert settings.models == (NamedModel("adjacency", one), NamedModel("other", two))
    assert (settings.host, settings.port, settings.fallback) == ("::1", 0, two)
    assert (settings.budget_ms, settings.workers, settings.threads) == (70, 3, 2)
    assert (settings.queue_size, settings.batch_size, settings.batch_seconds) == (9, 4, 1.5)
    assert (settings.max_sessions, settings.idle_minutes) == (11, 5.0)
    assert (settings.rate_per_second, settings.public) == (7.0, frozenset({"metrics"}))
    assert settings.trusted_proxies == ("10.0.0.0/8",)
    assert settings.cors_origins == ("https://shop.example",)
    assert (settings.drain_seconds, settings.kill_switch) == (0.5, tmp_path / "off")
    assert (settings.feedback, settings.feedback_days) == (tmp_path / "feedback", 30)
    assert (settings.feedback_mb, settings.sessions) == (9, "redis://127.0.0.1:1/0")
    assert not settings.control.exists()  # it goes with the command


def test_workers_with_sessions_in_memory_are_refused(
    served: list[ServiceSettings], served_models: dict[str, Path]
) -> None:
    done = CliRunner().invoke(app, ["serve", str(served_models["adjacency"]), "--workers", "2"])
    assert isinstance(done.exception, InputError)
    assert "`workers` 2: workers do not share sessions in memory" in str(done.exception)
    assert not served


@pytest.mark.parametrize(
    ("options", "score"), [([], False), (["--no-score"], False), (["--score"], True)]
)
def test_scores_are_given_only_on_request(
    served: list[ServiceSettings], served_models: dict[str, Path], options: list[str], score: bool
) -> None:
    done = CliRunner().invoke(app, ["serve", str(served_models["adjacency"]), *options])
    assert done.exit_code == 0, done.output
    assert served[0].score is score


def test_a_new_key_is_printed_with_the_line_that_knows_it(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["serve", "--new-key", "shop"])
    assert printed.exit_code == 0
    key, line = (text.split(":  ")[1] for text in printed.stdout.strip().split("\n"))
    assert line.startswith("shop")
    assert key not in line
    (tmp_path / "keys").write_text(line + "\n")
    assert read_keys(tmp_path / "keys", "NEXTQUERY_NO_KEYS").name(key) == "shop"
