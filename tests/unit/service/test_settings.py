from dataclasses import replace
from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.service.operation.listening import listen
from nextquery.service.settings import NamedModel, ServiceSettings


@pytest.mark.parametrize("name", ["workers", "queue_size", "batch_size", "max_sessions"])
def test_numbers_that_make_no_sense_are_refused(settings: ServiceSettings, name: str) -> None:
    with pytest.raises(InputError, match="must be at least 1"):
        replace(settings, **{name: 0})  # type: ignore[arg-type]


def test_names_of_models_differ(tmp_path: Path) -> None:
    twice = (NamedModel("adj", tmp_path), NamedModel("adj", tmp_path))
    with pytest.raises(InputError, match="named the same: adj, adj"):
        ServiceSettings(models=twice, control=tmp_path)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(InputError, match=r"cannot listen on 192\.0\.2\.1:0"):
        listen("192.0.2.1", 0)
