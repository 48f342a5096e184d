"""How much an export writes: refused values."""

import pytest

from nextquery.errors import InputError
from nextquery.export.engines import ExportSettings


@pytest.mark.parametrize("name", ["queries", "next_queries"])
def test_nothing_to_write_is_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}` 0: must be at least 1"):
        ExportSettings(**{name: 0})
