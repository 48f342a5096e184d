"""Disguised blocked words are not suggested, and personal data is not learnt, class by class.

Every text is typed by K users, so that only the guard can stop it. The controls are the same model
without a blocklist, the same log with `keep_personal_data`, and a rule that drops everything.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.normalise import normalise_query
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import load
from nextquery.suggesters.popularity import Popularity

from .disguises import BLOCKED, PROMISED, variants
from .personal_data import HARMLESS, PERSONAL

USERS = 3
ORDINARY = ("red shoes", "blue shoes")
"""Typed in every log, so that there is always a session."""


def fitted(folder: Path, texts: Iterable[str], **settings: Any) -> Path:
    """A popularity model of a log in which `USERS` users type each text."""
    folder.mkdir()
    with (folder / "log.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["user", "time", "query"])
        for user in range(USERS):
            for number, text in enumerate([*ORDINARY, *texts]):
                day, minute = divmod(number * 2, 24 * 60)
                time = f"2026-03-{day + 1:02}T{minute // 60:02}:{minute % 60:02}"
                writer.writerow([f"u{user}", time, text])
    cuts = "2027-01-01,2027-01-02,2027-01-03"
    chosen = PrepareSettings(split_at=cuts, spelling=False, min_users=USERS, **settings)
    prepare([folder / "log.csv"], folder / "data", chosen)
    fit_model(Popularity, PreparedData(folder / "data")).save(folder / "model")
    return folder / "model"


def everything(model: Path, **options: Any) -> set[str]:
    return {item.text for item in load(model, **options).suggest([], 1_000_000)}


def flat(classes: dict[str, tuple[str, ...]]) -> list[str]:
    return [text for texts in classes.values() for text in texts]


@pytest.fixture(scope="module")
def disguised() -> dict[str, set[str]]:
    texts: dict[str, set[str]] = defaultdict(set)
    for name, _, text in variants(quick=True):
        texts[name].add(normalise_query(text))
    return texts


@pytest.fixture(scope="module")
def shown(
    disguised: dict[str, set[str]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[set[str], set[str]]:
    """Everything the model suggests with a blocklist, and without."""
    folder = tmp_path_factory.mktemp("disguises")
    raw = [text for _, _, text in variants(quick=True)]
    model = fitted(folder / "log", raw)
    blocklist = folder / "blocked.txt"
    blocklist.write_text("\n".join(BLOCKED) + "\n", encoding="utf-8")
    return everything(model, blocklist=blocklist), everything(model)


@pytest.mark.parametrize("name", PROMISED)
def test_a_disguised_blocked_word_is_not_suggested(
    name: str, disguised: dict[str, set[str]], shown: tuple[set[str], set[str]]
) -> None:
    blocked, free = shown
    assert disguised[name] & blocked == set()
    assert disguised[name] & free, "control: without a blocklist"


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What models could suggest without their guard, by how their log was prepared."""
    folder = tmp_path_factory.mktemp("personal")
    return {
        name: everything(fitted(folder / name, texts, **settings), guarded=False)
        for name, texts, settings in (
            ("personal", flat(PERSONAL), {}),
            ("personal kept", flat(PERSONAL), {"keep_personal_data": True}),
            ("harmless", flat(HARMLESS), {}),
            ("harmless dropped", flat(HARMLESS), {"recogniser": suspects_everything}),
        )
    }


def suspects_everything(text: str) -> bool:
    return text not in ORDINARY


@pytest.mark.parametrize("name", PERSONAL)
def test_personal_data_is_not_learnt(name: str, learnt: dict[str, set[str]]) -> None:
    texts = set(map(normalise_query, PERSONAL[name]))
    assert texts & learnt["personal"] == set()
    assert texts & learnt["personal kept"], "control: keep_personal_data"


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_resembles_personal_data_is_learnt(
    name: str, learnt: dict[str, set[str]]
) -> None:
    texts = set(map(normalise_query, HARMLESS[name]))
    assert texts <= learnt["harmless"]
    assert not texts <= learnt["harmless dropped"], "control: a rule that drops everything"
