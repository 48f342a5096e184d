"""Decode settings are checked, and every one of them is documented."""

from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.inference.settings import MOST_BEAM, DecodeConfig, override

DOCUMENT = Path(__file__).parents[3] / "docs" / "explanation" / "decoding.md"


def test_overrides_are_typed() -> None:
    config = override(DecodeConfig(), {"beam": 7}, ["max_words=4", "length_normalised=true"])
    assert (config.beam, config.max_words, config.length_normalised) == (7, 4, True)


@pytest.mark.parametrize(
    "text", ["beam", "beam=0", "nothing=1", "min_words=20", "top_p=2", "mode=quick"]
)
def test_bad_settings_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        override(DecodeConfig(), {}, [text])


def test_the_fast_layer_is_for_large_vocabularies() -> None:
    assert DecodeConfig().output_mode(9_000) == "exact"
    assert DecodeConfig().output_mode(90_000) == "fast"
    assert DecodeConfig(mode="exact").output_mode(90_000) == "exact"


def test_every_setting_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [key for key in DecodeConfig.model_fields if f"| `{key}` |" not in text] == []


def test_the_longest_list_is_as_long_as_the_widest_beam() -> None:
    assert DecodeConfig().for_list(1 << 70).beam == MOST_BEAM
