"""docs/explanation/model.md names code that exists, and every equation of section 3."""

import importlib
import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "model.md"


def test_every_name_in_the_table_exists() -> None:
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if "| Eq." in line]
    assert len(rows) >= 8
    for row in rows:
        module = importlib.import_module("nextquery.model.hred")
        for name in re.findall(r"`([\w.]+)`", row.split("|")[3]):
            if name.endswith(".py"):
                module = importlib.import_module(f"nextquery.model.{name.removesuffix('.py')}")
                continue
            target = module
            for part in name.split("."):
                target = getattr(target, part)


def test_every_equation_up_to_the_likelihood_is_there() -> None:
    numbers = set()
    for text in re.findall(r"\| Eq\. ([\d, ]+) \|", DOCUMENT.read_text(encoding="utf-8")):
        numbers |= {int(number) for number in text.split(",")}
    assert numbers == set(range(1, 12))
