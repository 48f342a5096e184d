from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.evaluation.scenarios import SCENARIOS
from nextquery.evaluation.settings import ExperimentSettings


def test_all_scenarios_run_by_default() -> None:
    assert ExperimentSettings().scenarios == tuple(SCENARIOS)


def test_an_unknown_scenario_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"nowhere.*must be one of next_query"):
        ExperimentSettings(scenarios=("nowhere",))


def test_a_run_has_one_file_per_scenario(tmp_path: Path) -> None:
    first, second = tmp_path / "robust.a.run", tmp_path / "next_query.a.run"
    settings = ExperimentSettings(runs={"a": [first, second], "b": first})
    assert settings.run_files() == {"a": (first, second), "b": (first,)}
    with pytest.raises(InputError, match=r"`runs` a: given twice for robust \(.*a.run and .*b.run"):
        ExperimentSettings(runs={"a": [first, tmp_path / "robust.b.run"]})
    with pytest.raises(InputError, match="its name must begin with its scenario"):
        ExperimentSettings(runs={"a": tmp_path / "mine.run"})
    with pytest.raises(InputError, match=r"'a\+b': a name must not be empty or have"):
        ExperimentSettings(runs={"a+b": first})
    with pytest.raises(InputError, match="`exports` 'all': must be one of seeds, learning"):
        ExperimentSettings(exports=("all",))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_followers": 0}, "`min_followers` 0: must be at least 1"),
        ({"test_users": 0}, "`test_users` 0: must be at least 1"),
        ({"folds": 1}, "`folds` 1: must be at least 2"),
        ({"seed": -1}, "`seed` -1: must be at least 0"),
        ({"seed": 2**32}, "`seed` 4294967296: must be at most 4,294,967,295"),
        ({"ranker_positions": "first"}, "`ranker_positions` 'first': must be one of last, every"),
        ({"new_visitor_cases": "some"}, "`new_visitor_cases` 'some': must be one of test, all"),
        ({"visitors": "all"}, "`visitors` 'all': must be one of known, new, both"),
        ({"earlier_queries": 11}, "`earlier_queries` 11: must be at most 10"),
        ({"earlier_queries": 3, "visitors": "new"}, "new visitors have none"),
        ({"users_apart": {"a": Path("gone.txt")}}, "`users_apart` gone.txt: no such file"),
    ],
)
def test_values_outside_the_limits_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExperimentSettings(**values)


def test_a_config_for_the_learning_curve_asks_for_one() -> None:
    assert ExperimentSettings(learning_curve_config="tiny").learning_curve
    assert not ExperimentSettings().learning_curve
