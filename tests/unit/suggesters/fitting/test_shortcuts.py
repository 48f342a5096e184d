"""Sessions grouped by their end: which ends count, and what their documents hold."""

from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.suggesters.fitting.fit import fit_model
from nextquery.suggesters.shortcuts import Shortcuts, ShortcutsSettings

SESSIONS = [
    ("u1", ["shoes", "red boots"]),
    ("u2", ["socks", "red boots"]),
    ("u3", ["red boots", "shoes"]),
]
CLICKS = [("u1", "red boots", "/boots"), ("u2", "red boots", "/boots")]


def endings(model: Shortcuts) -> dict[str, float]:
    texts = [model.background.text(int(number)) for number in model.endings]
    return dict(zip(texts, model.sessions.tolist(), strict=True))


def test_ends_that_were_clicked_count(prepared: Any, tiny_log: Any) -> None:
    model = fit_model(Shortcuts, prepared(tiny_log(SESSIONS, clicks=CLICKS)))
    assert endings(model) == {"red boots": 2}
    assert model.settings.satisfactory is True


def test_all_ends_count_where_asked_or_where_nothing_was_clicked(
    prepared: Any, tiny_log: Any
) -> None:
    asked = ShortcutsSettings(satisfactory=False)
    for model in (
        fit_model(Shortcuts, prepared(tiny_log(SESSIONS, clicks=CLICKS)), asked),
        fit_model(Shortcuts, prepared(tiny_log(SESSIONS))),
    ):
        assert endings(model) == {"red boots": 2, "shoes": 1}
        assert model.settings.satisfactory is False


def test_clicks_that_are_asked_for_and_missing_are_an_error(prepared: Any, tiny_log: Any) -> None:
    with pytest.raises(InputError, match="no session ends in a known query that was clicked"):
        fit_model(Shortcuts, prepared(tiny_log(SESSIONS)), ShortcutsSettings(satisfactory=True))


def test_old_sessions_weigh_less_and_then_leave(prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log(SESSIONS, days=[0, 4, 4]))
    model = fit_model(Shortcuts, data, ShortcutsSettings(half_life_days=4))
    assert endings(model) == pytest.approx({"red boots": 1.5, "shoes": 1})
    model = fit_model(Shortcuts, data, ShortcutsSettings(window_days=2))
    assert endings(model) == {"red boots": 1, "shoes": 1}
