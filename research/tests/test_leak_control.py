"""The control for new visitors: habits that nothing tells, and counts without a single user."""

from collections import defaultdict
from pathlib import Path

import pytest

from nextquery.evaluation.scenario_features import read_evaluation_data
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from research.leak import WithoutSingleUsers, deal_habits


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    folder = tmp_path_factory.mktemp("leak")
    write_log(folder / "log.tsv", sessions=300, seed=1)
    prepare([folder / "log.tsv"], folder / "data", PrepareSettings(spelling=False, min_users=1))
    return PreparedData(folder / "data")


def test_a_dealt_log_has_one_habit_per_user_and_query(data: PreparedData, tmp_path: Path) -> None:
    control, dealt = deal_habits(data, tmp_path / "dealt")
    habits: dict[tuple[str, str], set[str]] = defaultdict(set)
    changed = 0
    for split in data.splits:
        pairs = list(zip(data.sessions(split), control.sessions(split), strict=True))
        for before, after in pairs:
            assert (before.user, before.queries[:-1]) == (after.user, after.queries[:-1])
            changed += before.queries != after.queries
            if len(after.queries) > 1:
                habits[after.user, after.queries[-2]].add(after.queries[-1])
    assert changed > 50
    assert all(len(found) == 1 for found in habits.values())
    assert all(dealt[anchor][text] > 0 for (_, anchor), (text,) in habits.items())
    assert all(sum(found.values()) == pytest.approx(1.0) for found in dealt.values())


def test_counts_without_a_single_user_lack_just_that_users_part(data: PreparedData) -> None:
    whole = read_evaluation_data(data).background
    found = WithoutSingleUsers(whole, data.session_rows("background").collect())
    sessions = list(data.sessions("background"))
    user = sessions[0].user
    own = [query for each in sessions if each.user == user for query in each.queries]
    others = {query for each in sessions if each.user != user for query in each.queries}
    for query in dict.fromkeys(own):
        left = whole.frequency(query) - own.count(query)
        assert found.of(user).frequency(query) == left
        assert (query in found.of(user)) == (query in others)
    assert found.of("nobody") is whole
