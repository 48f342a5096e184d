from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.logs.engines.open import ENGINES, open_engine


@pytest.mark.parametrize("name", ["polars", "duckdb"])
def test_an_engine_is_opened_by_its_name(name: str, tmp_path: Path) -> None:
    engine = open_engine(name, tmp_path)
    assert engine.name == name
    engine.close()


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`engine` abacus: not one of "):
        open_engine("abacus", tmp_path)
    assert {"polars", "duckdb", "spark"} <= set(ENGINES)
