from dataclasses import FrozenInstanceError

import pytest

from nextquery.logs.reading.settings import ReadSettings


def test_defaults_are_those_of_the_documentation() -> None:
    found = ReadSettings()
    assert (found.format, found.columns, found.time_zone) == ("auto", None, "UTC")
    assert found.max_rejected == 0.05
    with pytest.raises(FrozenInstanceError):
        found.format = "aol"  # type: ignore[misc]
