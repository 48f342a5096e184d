"""One model under two settings is two models of a study."""

from pathlib import Path

import pytest

from nextquery.errors import ConfigError, InputError
from nextquery.study.pool import open_models
from nextquery.suggesters.base import Adjustable, Decoding


def test_one_folder_is_asked_in_two_ways(served_models: dict[str, Path]) -> None:
    hred = served_models["hred"]
    settings = {"old": ["specificity=0", "known=free"]}
    found = open_models({"old": hred, "new": hred}, settings)
    old, new = found["old"], found["new"]
    assert isinstance(old, Decoding)
    assert isinstance(new, Decoding)
    assert (old.config.specificity, old.config.known) == (0.0, "free")
    assert (new.config.specificity, new.config.known) == (0.3, "prefer")
    asked = old.config.model_copy()
    assert old.suggest(["a"], 5) == new.suggest(["a"], 5, config=asked)


def test_a_count_model_has_its_specificity(served_models: dict[str, Path]) -> None:
    folders = {"a": served_models["adjacency"], "b": served_models["adjacency"]}
    found = open_models(folders, {"b": ["specificity=0.3"]})
    assert isinstance(found["b"], Adjustable)
    assert found["b"].specificity == 0.3
    assert isinstance(found["a"], Adjustable)
    assert found["a"].specificity == 0.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"c": ["specificity=0"]}, "no model has this name"),
        ({"a": ["beam=4"]}, "takes specificity"),
        ({"a": ["specificity=many"]}, "from 0 to 1"),
    ],
)
def test_what_cannot_be_set_is_refused(
    settings: dict[str, list[str]], said: str, served_models: dict[str, Path]
) -> None:
    with pytest.raises(InputError, match=said):
        open_models({"a": served_models["adjacency"], "b": served_models["hred"]}, settings)


def test_an_unknown_setting_is_named(served_models: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match="no such decode setting"):
        open_models({"a": served_models["hred"]}, {"a": ["width=4"]})
