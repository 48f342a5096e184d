"""The capabilities: listed in the docstring, and held by the models that have them."""

import re
from pathlib import Path
from typing import Any

import pytest

from nextquery.suggesters import base
from nextquery.suggesters.loading import load

PROTOCOLS = {
    name: kind
    for name, kind in vars(base).items()
    if not name.startswith("_") and isinstance(kind, type) and kind.__module__ == base.__name__
}
HRED = PROTOCOLS.keys() - {"Adjustable", "Wrapping"}
COUNTS = {"Scorer", "Suggester", "Completer", "Adjustable", "Guarded"}


def test_the_docstring_lists_every_capability() -> None:
    listed = re.findall(r"^    (\w+) {2,}\w", base.__doc__ or "", re.M)
    assert sorted(listed) == sorted(PROTOCOLS)


@pytest.mark.parametrize(
    ("name", "able"),
    [
        ("adjacency", COUNTS),
        ("popularity", COUNTS),
        ("hred", HRED),
    ],
)
def test_a_model_has_its_capabilities_and_no_others(
    served_models: dict[str, Path], name: str, able: set[str]
) -> None:
    model: Any = load(served_models[name])
    assert {each for each, kind in PROTOCOLS.items() if isinstance(model, kind)} == able
