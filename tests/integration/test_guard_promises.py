"""The guard's rows of the table of promises, in their quick form."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from promises import guards


@pytest.mark.slow
def test_disguises_of_every_class_stay_away() -> None:
    rows = list(guards.disguises(quick=True))
    assert len(rows) == 22
    assert [row.promise for row in rows if not row.kept] == []


@pytest.mark.slow
def test_personal_data_of_every_class_is_not_learnt_and_the_rest_is() -> None:
    rows = list(guards.personal_data(quick=True))
    assert len(rows) == 14
    assert [row.promise for row in rows if not row.kept] == []
