import pytest

from nextquery.errors import InputError, LogError
from nextquery.logs.settings import ReadSettings


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=r"`max_rejected` .*: give a share from 0 to 1"):
        ReadSettings(max_rejected=share)


def test_an_unknown_zone_is_refused_before_anything_is_read() -> None:
    with pytest.raises(LogError, match="time zone 'Moon' is unknown"):
        ReadSettings(time_zone="Moon")
