"""One user's secret, typed ten thousand times, from the raw log to the suggestions.

The secret's words are everybody's, so the model has them; only the combination is one person's.
With the guards on it must not come out under any context; with the guards off it does.
"""

import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.conftest import run_command

from nextquery import load
from nextquery.guard.guard import Reason
from nextquery.inference.settings import DecodeConfig
from nextquery.suggesters.neural import HREDSuggester

TOPICS = ("paris", "rome", "berlin", "madrid")
FACETS = ("hotel", "museum", "weather", "violet", "tunnel")
SECRET = "violet tunnel madrid"
TIMES = 10_000
CONTEXTS: list[list[str]] = [
    [],
    ["paris hotel"],
    ["madrid hotel"],
    ["violet"],
    ["tunnel"],
    ["madrid violet", "madrid tunnel"],
    ["unheard of"],
    ["paris hotel", "paris museum", "paris hotel"],
]


def write_log(path: Path) -> None:
    """A crowd of 40 users, and a diarist who types the secret in every session."""
    rng = random.Random(5)
    rows, start = [], datetime(2006, 3, 1)

    def session(user: int, queries: list[str], at: datetime) -> None:
        for minute, query in enumerate(queries):
            time = at + timedelta(minutes=minute)
            rows.append(f"{user}\t{query}\t{time:%Y-%m-%d %H:%M:%S}\t\t")

    for number in range(2_000):
        topic = rng.choice(TOPICS)
        queries = [f"{topic} {facet}" for facet in rng.sample(FACETS, 3)]
        session(number % 40, queries, start + timedelta(hours=number))
    for number in range(TIMES):
        session(99, ["paris hotel", SECRET], start + timedelta(minutes=10 * number, seconds=7))
    path.write_text(
        "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n" + "\n".join(rows) + "\n", encoding="utf-8"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secret")
    write_log(folder / "log.tsv")
    commands = (
        f"prepare {folder}/log.tsv --out {folder}/data --no-spelling --idle-minutes 5"
        " --max-user-repeats 100000 --max-user-share 1",
        f"train {folder}/data --out {folder}/model --config tiny --set train.epochs=1"
        " --set model.query_size=32 --set model.session_size=32 --set train.validation_sessions=50",
    )
    for command in commands:
        run_command(*command.split())
    return folder / "model"


def tells(text: str) -> bool:
    """Whether a suggestion has a part of the secret that nobody else typed."""
    return "violet tunnel" in text or "tunnel madrid" in text


def suggestions(suggester: HREDSuggester, contexts: list[list[str]]) -> list[str]:
    """Everything that comes out in any way."""
    configs = [
        DecodeConfig(beam=50, fold=False, quality=False),
        DecodeConfig(beam=50, diversity=0.8, length_normalised=True, quality=False),
        DecodeConfig(beam=50, strategy="sample", temperature=2.0, quality=False),
    ]
    texts = [
        suggestion.text
        for config in configs
        for suggested in suggester.suggest_many(contexts, 30, config=config)
        for suggestion in suggested
    ]
    for prefix in ("v", "violet", "violet ", "tunnel m", "paris "):
        texts += [suggestion.text for suggestion in suggester.complete(["paris hotel"], prefix, 30)]
    return texts


@pytest.mark.slow
def test_the_secret_does_not_come_out_and_without_guards_it_does(folder: Path) -> None:
    guarded, open_door = load(folder), load(folder, guarded=False)
    assert isinstance(guarded, HREDSuggester)
    assert isinstance(open_door, HREDSuggester)
    assert {"violet", "tunnel", "madrid"} <= set(guarded.model.vocabulary.words)
    assert SECRET in suggestions(open_door, CONTEXTS)
    shown = suggestions(guarded, CONTEXTS)
    assert len(shown) > 300
    assert not any(tells(text) for text in shown)
    assert guarded.guard.blocked()[Reason.RARE_PAIR] > 0


@pytest.mark.slow
def test_what_the_user_just_typed_may_be_suggested_to_them(folder: Path) -> None:
    guarded = load(folder)
    assert isinstance(guarded, HREDSuggester)
    shown = suggestions(guarded, [["violet tunnel"]])
    assert any("violet tunnel" in text for text in shown)
    assert not any("tunnel madrid" in text for text in shown)


@pytest.mark.slow
def test_the_folder_does_not_hold_the_secret(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes()
