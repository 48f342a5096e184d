"""Settings from shipped files, own files and overrides; every mistake is named with its place."""

from pathlib import Path

import pytest

from nextquery.config import Section, from_overrides, load_config, shipped_configs, stored_section
from nextquery.errors import NextqueryError
from nextquery.model.settings import RunConfig


class Small(Section):
    """A section with a bound."""

    depth: int = 3
    name: str = "x"


def test_every_shipped_config_is_valid() -> None:
    assert {"tiny", "small", "paper"} <= set(shipped_configs())
    for name in shipped_configs():
        load_config(RunConfig, name)


def test_overrides_have_the_types_of_their_settings() -> None:
    assert from_overrides(Small, ["depth=5", "name=y"]) == Small(depth=5, name="y")


@pytest.mark.parametrize("override", ["depth", "depth=many", "deep=1", "=1"])
def test_a_bad_override_is_named(override: str) -> None:
    with pytest.raises(NextqueryError) as refused:
        from_overrides(Small, [override])
    assert override.split("=")[0] in str(refused.value)


def test_a_stored_section_of_another_shape_is_refused_by_place(tmp_path: Path) -> None:
    with pytest.raises(NextqueryError, match=str(tmp_path)):
        stored_section(Small, {"depth": "many"}, tmp_path)
