from typing import Any

import pytest
from pydantic import ValidationError

from nextquery.suggesters.background import AgingSettings
from nextquery.suggesters.loading import COUNT_MODELS, count_model


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_every_count_model_takes_them(kind: str) -> None:
    assert issubclass(count_model(kind).settings_type, AgingSettings)
    assert not count_model(kind).settings_type().ages


@pytest.mark.parametrize("wrong", [{"half_life_days": 0}, {"window_days": 0}])
def test_ages_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgingSettings(**wrong)
