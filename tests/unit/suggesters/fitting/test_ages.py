"""Every count model under a window and a half-life, by hand and against a shorter log."""

from datetime import date
from math import exp
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nextquery.suggesters.background import Ages, AgingSettings
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import COUNT_MODELS, count_model, load

OLD = [("ann", ["red", "old end"]), ("bob", ["red", "old end"]), ("cat", ["blue", "red"])]
NEW = [("dan", ["red", "new end"]), ("eve", ["blue", "red"])]
CLICKS = [(user, queries[-1], f"http://{queries[-1]}") for user, queries in (*OLD, *NEW)]
ANSWERS = ("old end", "new end")


def _fitted(data: Any, kind: str, engine: str = "polars", **settings: float) -> Any:
    model_type = count_model(kind)
    # In a log this small the prior, which has no age, would outweigh what was seen.
    settings |= {"escape": 0.1} if kind in ("qvmm", "cacb") else {}
    # To rescue, "red" fails.
    hits = (lambda query: query != "red") if kind == "rescue" else None
    chosen = model_type.settings_type(**settings)
    return fit_model(model_type, data, chosen, engine=engine, hits=hits)


@pytest.fixture(scope="module")
def data(prepared: Any, tiny_log: Any) -> Any:
    return prepared(tiny_log([*OLD, *NEW], CLICKS, days=[0, 0, 0, 20, 20]))


def test_days_are_weighed_by_hand() -> None:
    days = [date(2024, 1, 1), date(2024, 1, 11), date(2024, 1, 21)]
    daily = pl.DataFrame({"query": ["a", "a", "b"], "day": days, "count": [4, 2, 1]})
    half = Ages(AgingSettings(half_life_days=10), days[-1]).weigh(daily, ["query"])
    assert half.rows() == [("a", 4 / 4 + 2 / 2), ("b", 1.0)]
    # The last eleven days: the first of them is ten days old.
    cut = Ages(AgingSettings(window_days=11), days[-1]).weigh(daily, ["query"])
    assert cut.rows() == [("a", 2), ("b", 1)]
    assert cut.schema["count"] == pl.Int64


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_what_is_recent_comes_first_with_a_half_life(kind: str, data: Any) -> None:
    plain, aged = _fitted(data, kind), _fitted(data, kind, half_life_days=5)
    orders = [
        [item.text for item in model.suggest(["red"], 10) if item.text in ANSWERS]
        for model in (plain, aged)
    ]
    assert orders[0][0] == "old end"
    assert orders[1][0] == "new end"


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_what_lies_outside_the_window_is_not_suggested(kind: str, data: Any) -> None:
    model = _fitted(data, kind, window_days=10)
    shown = [item.text for item in model.suggest(["red"], 10)]
    assert "new end" in shown
    assert "old end" not in shown
    assert all(exp(item.log_likelihood) > 0 for item in model.score(["red"], ["old end", "none"]))


def test_weights_by_hand_in_adjacency(data: Any) -> None:
    model = _fitted(data, "adjacency", half_life_days=10)
    # After red: old end twice, 20 days before the last day, weighs 2/4; new end 1. P(q) is 2/10
    # and 1/10 of the whole background, one observation imagined.
    old, new = model.score(["red"], list(ANSWERS))
    assert exp(old.log_likelihood) == pytest.approx((0.5 + 2 / 11) / 2.5)
    assert exp(new.log_likelihood) == pytest.approx((1 + 1 / 11) / 2.5)
    assert [item.source for item in model.suggest(["red"], 2)] == [
        "seen in the log (1 time after the last query)"
    ] * 2


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_engines_agree_and_models_come_back(kind: str, data: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"half_life_days": 3.0, "window_days": 30}
    for engine in ("polars", "duckdb"):
        _fitted(data, kind, engine, **settings).save(tmp_path / engine)
    names = [path.relative_to(tmp_path / "polars") for path in (tmp_path / "polars").rglob("*.npy")]
    assert names
    for name in names:
        one, other = (tmp_path / engine / name for engine in ("polars", "duckdb"))
        assert one.read_bytes() == other.read_bytes(), name
    again = load(tmp_path / "polars")
    assert again.suggest(["red"], 5) == _fitted(data, kind, **settings).suggest(["red"], 5)
