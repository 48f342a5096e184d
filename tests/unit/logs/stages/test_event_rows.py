from dataclasses import FrozenInstanceError

import pytest

from nextquery.logs.cleaning import RowCounts


def test_counts_of_rows_cannot_be_changed() -> None:
    counts = RowCounts(3, {"empty": 1})
    with pytest.raises(FrozenInstanceError):
        counts.users = 4  # type: ignore[misc]
