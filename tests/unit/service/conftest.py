import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nextquery.service.settings import NamedModel, ServiceSettings


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    return ServiceSettings(models=(NamedModel("main", tmp_path / "none"),), control=tmp_path)


@pytest.fixture
def altered(tmp_path: Path) -> Callable[[Path, str], Path]:
    """A copy of a model folder in which one file has a byte too many."""

    def copy(folder: Path, name: str) -> Path:
        broken = tmp_path / "broken"
        shutil.copytree(folder, broken)
        with (broken / name).open("ab") as stream:
            stream.write(b"x")
        return broken

    return copy
