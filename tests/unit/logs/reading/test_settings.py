import pytest

from nextquery.errors import InputError
from nextquery.logs.settings import ReadSettings


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=r"`max_rejected` .*: give a share from 0 to 1"):
        ReadSettings(max_rejected=share)
