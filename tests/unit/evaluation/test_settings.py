from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.evaluation.scenarios import SCENARIOS
from nextquery.evaluation.settings import ExperimentSettings


def test_all_scenarios_run_by_default() -> None:
    assert ExperimentSettings().scenarios == tuple(SCENARIOS)


def test_an_unknown_scenario_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"nowhere.*must be one of next_query"):
        ExperimentSettings(scenarios=("nowhere",))


@pytest.mark.parametrize("name", ["min_followers", "seeds"])
def test_nothing_can_be_counted_with_less_than_one(name: str) -> None:
    with pytest.raises(InputError, match="at least 1"):
        ExperimentSettings(**{name: 0})  # type: ignore[arg-type]


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


def test_rankers_learn_from_last_queries_or_every_one() -> None:
    assert ExperimentSettings(ranker_positions="every").ranker_positions == "every"
    with pytest.raises(InputError, match="`ranker_positions` 'first': must be one of last, every"):
        ExperimentSettings(ranker_positions="first")


def test_new_visitors_have_the_sessions_of_one_split_or_all() -> None:
    assert ExperimentSettings(new_visitor_cases="all").new_visitor_cases == "all"
    with pytest.raises(InputError, match=r"`new_visitor_cases` 'some': must be one of test, all"):
        ExperimentSettings(new_visitor_cases="some")


def test_earlier_queries_are_few_and_of_known_visitors() -> None:
    assert ExperimentSettings().earlier_queries == 0
    with pytest.raises(InputError, match="`earlier_queries` 11: must be 0 to 10"):
        ExperimentSettings(earlier_queries=11)
    with pytest.raises(InputError, match="new visitors have none"):
        ExperimentSettings(earlier_queries=3, visitors="new")


def test_test_users_are_at_least_one() -> None:
    with pytest.raises(InputError, match="`test_users` 0: must be at least 1"):
        ExperimentSettings(test_users=0)


@pytest.mark.parametrize("seed", [-1, 2**32, 2**64])
def test_a_seed_that_cannot_be_drawn_with_is_refused(seed: int) -> None:
    with pytest.raises(InputError, match=f"`seed` {seed}: must be 0 to 4294967295"):
        ExperimentSettings(seed=seed)
