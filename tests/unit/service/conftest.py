from pathlib import Path

import pytest

from nextquery.service.settings import NamedModel, ServiceSettings


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    return ServiceSettings(models=(NamedModel("main", tmp_path / "none"),), control=tmp_path)
