from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.feedback.assignment import Share
from nextquery.service.run import listen
from nextquery.service.settings import NamedModel, ServiceSettings


def test_names_of_models_differ(tmp_path: Path) -> None:
    twice = (NamedModel("adj", tmp_path), NamedModel("adj", tmp_path))
    with pytest.raises(InputError, match="named the same: adj, adj"):
        ServiceSettings(models=twice, control=tmp_path)


@pytest.mark.parametrize("workers", [2, 16])
def test_workers_cannot_share_sessions_in_memory(settings: ServiceSettings, workers: int) -> None:
    with pytest.raises(InputError, match=rf"`workers` {workers}: .*redis://HOST:PORT/DB.*'none'"):
        replace(settings, workers=workers)
    for sessions in ("redis://127.0.0.1:1/0", "rediss://x", "unix:///socket", "none"):
        assert replace(settings, workers=workers, sessions=sessions).workers == workers
    assert replace(settings, workers=1, sessions="memory").sessions == "memory"


@pytest.mark.parametrize("sessions", ["", "Memory", "mysql://x", "redis:", "memory "])
def test_an_unknown_store_is_refused(settings: ServiceSettings, sessions: str) -> None:
    with pytest.raises(InputError, match=r"`sessions` .*write 'memory', 'none' or redis://"):
        replace(settings, sessions=sessions)


@pytest.mark.parametrize("days", [0, -1, 36_501, 10**9])
def test_days_of_feedback_have_bounds(settings: ServiceSettings, days: int) -> None:
    with pytest.raises(InputError, match="`feedback_days`"):
        replace(settings, feedback=settings.control, feedback_days=days)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(InputError, match=r"cannot listen on 192\.0\.2\.1:0"):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        ({"interleave": ("a",)}, "two different"),
        ({"interleave": ("a", "a")}, "two different"),
        ({"interleave": ("a", "c")}, "`interleave` c: is not served; there are: a, b"),
        ({"split": (Share("a", 1),)}, "at least two"),
        ({"split": (Share("a", 1), Share("c", 1))}, "`split` c"),
        ({"shadow": "c"}, "`shadow` c"),
        ({"interleave": ("a", "b"), "split": (Share("a", 1), Share("b", 1))}, "choose one"),
        ({"shadow": "b", "feedback": None}, "needs `feedback`"),
    ],
)
def test_a_trial_that_cannot_be_run_is_refused(
    tmp_path: Path, trial: dict[str, Any], message: str
) -> None:
    models = (NamedModel("a", tmp_path), NamedModel("b", tmp_path))
    with pytest.raises(InputError, match=message):
        ServiceSettings(models=models, control=tmp_path, **{"feedback": tmp_path, **trial})


NUMBERS = [each.name for each in fields(ServiceSettings) if each.type in (int, float)]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 1 << 70])
def test_every_number_has_bounds(settings: ServiceSettings, name: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"`{name}` \S+: must be at"):
        replace(settings, **{name: value})  # type: ignore[arg-type]
