"""Users named in a file are found by their pseudonyms and measured apart."""

from pathlib import Path

import numpy as np
import pytest

from nextquery.errors import InputError
from nextquery.evaluation.comparison import FEWEST_CASES, rank_systems
from nextquery.evaluation.scenario_run import by_user_group, read_user_groups
from nextquery.logs.privacy import pseudonym
from nextquery.ranking.cases import CaseSet, RankingCase


def cases(users: list[str]) -> CaseSet:
    made = (
        RankingCase(n, ("a",), "a", ("right", "wrong"), 0, 2, user=user)
        for n, user in enumerate(users)
    )
    return CaseSet(tuple(made))


def test_a_file_has_one_id_per_line_as_the_log_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "staff.txt"
    file.write_text("\ufeffann\r\n  bob\n\n", encoding="utf-8")
    assert read_user_groups({"staff": file}) == {
        "staff": {str(pseudonym("ann")), str(pseudonym("bob"))}
    }


def test_a_file_without_users_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(InputError, match="no users in it"):
        read_user_groups({"staff": empty})
    with pytest.raises(InputError, match="cannot be read"):
        read_user_groups({"staff": tmp_path / "gone.txt"})


def test_systems_are_measured_on_the_cases_of_the_group_alone() -> None:
    staff, others = ["s1", "s2"] * (FEWEST_CASES // 2), ["o"] * FEWEST_CASES
    wrong = np.tile([0.0, 1.0], 2 * FEWEST_CASES)
    better = wrong.copy()
    better[: 2 * FEWEST_CASES] = np.tile([2.0, 1.0], FEWEST_CASES)  # right for the staff only
    ranks = rank_systems(
        cases(staff + others), {"adj": wrong, "baseline": wrong, "baseline+m": better}
    )
    found = by_user_group(ranks, {"staff": {"s1", "s2"}, "nobody": {"x"}})

    assert found["staff"].cases == FEWEST_CASES
    assert found["staff"].systems["baseline+m"].mrr == 1.0
    gain = next(each for each in found["staff"].comparisons if each.b == "baseline")
    assert gain.difference == 0.5
    assert found["nobody"].too_few
    assert by_user_group(ranks, {}) == {}
