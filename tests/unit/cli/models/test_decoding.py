"""Which options a model takes: all of them where it decodes, a few where it counts."""

from pathlib import Path

import pytest

from nextquery import load
from nextquery.cli.suggest import as_written, decode_options, unable
from nextquery.errors import InputError
from nextquery.inference.settings import DecodeConfig
from nextquery.records import Suggestion


def test_nothing_given_is_nothing_passed(served_models: dict[str, Path]) -> None:
    assert decode_options(load(served_models["hred"]), {"beam": None}, []) == {}


def test_a_model_that_decodes_takes_a_config(served_models: dict[str, Path]) -> None:
    options = decode_options(load(served_models["hred"]), {"beam": 4}, ["max_words=7"])
    config = options["config"]
    assert isinstance(config, DecodeConfig)
    assert (config.beam, config.max_words) == (4, 7)


def test_a_count_model_takes_what_it_can_adjust(served_models: dict[str, Path]) -> None:
    model = load(served_models["adjacency"])
    given = {"diversity": 0.5, "beam": None}
    assert decode_options(model, given, [], {"diversity"}) == {"diversity": 0.5}
    with pytest.raises(InputError, match="--beam, --set mode=fast: for HRED only; this model is"):
        decode_options(model, {"beam": 4, "diversity": 0.1}, ["mode=fast"], {"diversity"})


def test_a_model_that_cannot_is_named(served_models: dict[str, Path]) -> None:
    error = unable(Path("folder"), load(served_models["adjacency"]), "has no gates")
    assert str(error) == "folder: a model of kind 'adjacency' has no gates; give a trained one"


def test_scripts_without_spaces_are_shown_without() -> None:
    found = as_written(Suggestion("日本 語", -1.0, "seen"))
    assert found.text == "日本語"
    assert as_written(Suggestion("two words", -1.0, "seen")).text == "two words"
