from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.feedback.settings import Bounds, CompareSettings, ReportSettings


@pytest.mark.parametrize(
    ("settings", "values", "message"),
    [
        (Bounds, {"per_visitor": -1}, "`per_visitor` -1"),
        (Bounds, {"since": "May"}, "`since` May: write a day"),
        (ReportSettings, {"min_visitors": 0}, "`min_visitors` 0"),
        (CompareSettings, {"alpha": 0.0}, "`alpha` 0.0"),
        (CompareSettings, {"power": 1.0}, "`power` 1.0"),
        (CompareSettings, {"smallest_effect": 0.0}, "`smallest_effect` 0.0"),
    ],
)
def test_what_makes_no_sense_is_refused(
    settings: Any, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        settings(**values)
