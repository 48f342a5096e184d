from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.evaluation.systems import COUNT_MODELS, check_names, open_systems


@pytest.mark.parametrize(
    "names", [["adj"], ["baseline"], ["a:b"], ["a+b"], ["A"], [""], ["x", "x"]]
)
def test_names_that_the_report_uses_itself_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match="`model`"):
        check_names(names)


def test_other_names_are_fine() -> None:
    check_names(["hred", "hred-copy", "mine_2"])


def test_a_log_without_clicks_has_no_system_that_needs_them(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    sessions = [("u", ("a", "b", "c")), ("v", ("a", "b"))]
    clicks = [("u", "c", "x.example"), ("v", "b", "x.example")]
    found = []
    for log in (tiny_log(sessions), tiny_log(sessions, clicks)):
        with open_systems(prepared(log), tmp_path / "models", {}, {}, {}) as systems:
            found.append(set(systems.count_models))

    assert found[0] == set(COUNT_MODELS) - {"cacb", "ss"}
    assert found[1] == set(COUNT_MODELS)
