import pytest

from nextquery.errors import InputError
from nextquery.evaluation.systems import check_names


@pytest.mark.parametrize(
    "names", [["adj"], ["baseline"], ["a:b"], ["a+b"], ["A"], [""], ["x", "x"]]
)
def test_names_that_the_report_uses_itself_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match="`model`"):
        check_names(names)


def test_other_names_are_fine() -> None:
    check_names(["hred", "hred-copy", "mine_2"])
