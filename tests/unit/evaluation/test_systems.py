from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.errors import InputError
from nextquery.evaluation.systems import COUNT_MODELS, check_names, identity, open_systems
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import load
from nextquery.suggesters.popularity import Popularity


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


def test_several_folders_are_one_system_with_the_mean_probability(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    logs = [[("u", ("a", "b")), ("v", ("a", "c"))], [("u", ("a", "b")), ("v", ("b", "a"))]]
    data = [prepared(tiny_log(log)) for log in logs]
    folders = tuple(tmp_path / f"model-{number}" for number in range(2))
    for each, folder in zip(data, folders, strict=True):
        fit_model(Popularity, each).save(folder)
    with open_systems(data[0], tmp_path / "counts", {"both": folders}, {}, {}) as systems:
        (found,) = systems.models["both"].score((), ["c"])

    alone = [load(folder).score((), ["c"])[0].log_likelihood for folder in folders]
    assert alone[0] != alone[1]
    assert np.exp(found.log_likelihood) == pytest.approx(np.mean(np.exp(alone)))
    assert identity(folders) == [identity(folder) for folder in folders]
    assert identity(folders) != identity(folders[::-1])
