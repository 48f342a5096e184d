"""A Chinese and an Arabic log through the whole line: prepare, fit, train, suggest, serve."""

import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import nextquery
from nextquery.normalise import normalise_query
from nextquery.service.answering import build_service
from nextquery.service.app import build_app
from nextquery.service.settings import NamedModel, ServiceSettings

HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"


@dataclass(frozen=True)
class Language:
    """A made-up log: cities and what people look for in them."""

    things: tuple[str, ...]
    cities: tuple[str, ...]
    pattern: str
    word: str
    """A word that must be in the vocabulary."""


LANGUAGES = {
    "chinese": Language(
        ("酒店", "地图", "天气", "美食"), ("北京", "上海", "广州", "深圳"), "{1}{0}", "酒店"
    ),
    "arabic": Language(
        ("فنادق", "خريطة", "طقس", "مطاعم"),
        ("القاهرة", "دبي", "الرياض", "بيروت"),
        "{0} {1}",
        "فنادق",
    ),
}


def write_log(path: Path, language: Language) -> None:
    """Sessions that stay in one city and go through what it has in a fixed order."""
    chance, start = random.Random(1), datetime(2024, 1, 1)
    lines = [HEADER]
    for number in range(240):
        city, time_ = chance.choice(language.cities), start + timedelta(hours=8 * number)
        first = chance.randrange(2)
        for step, thing in enumerate(language.things[first : first + 3]):
            query = language.pattern.format(thing, city)
            moment = time_ + timedelta(minutes=step)
            lines.append(f"u{number % 50}\t{query}\t{moment:%Y-%m-%d %H:%M:%S}\t\t\n")
    path.write_text("".join(lines), encoding="utf-8")


def ask(folder: Path, work: Path, query: str) -> list[str]:
    """What the service answers over HTTP."""
    settings = ServiceSettings((NamedModel("model", folder),), work, budget_ms=60_000)
    with TestClient(build_app(build_service(settings))) as client:
        end = time.monotonic() + 250
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < end, "the model was not loaded"
            time.sleep(0.05)
        answer: Any = client.post("/v1/suggest", json={"query": query, "n": 3}).json()
    return [item["text"] for item in answer["suggestions"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGES)
def test_the_whole_line(name: str, tmp_path: Path) -> None:
    language = LANGUAGES[name]
    write_log(tmp_path / "log.tsv", language)
    data = nextquery.prepare(tmp_path / "log.tsv", tmp_path / "data", spelling=False)
    assert language.word in data.words()
    anchor, expected = (
        language.pattern.format(thing, language.cities[0]) for thing in language.things[1:3]
    )
    count = nextquery.fit(data, "adjacency", tmp_path / "adjacency")
    assert count.suggest([anchor], n=1)[0].text == normalise_query(expected)
    assert ask(tmp_path / "adjacency", tmp_path, anchor)[0] == expected, "as people write it"
    small = ["train.epochs=40", "train.rate=0.01"]
    hred = nextquery.train(data, tmp_path / "hred", "tiny", small)
    assert hred.suggest([anchor], n=3)[0].text == normalise_query(expected)
    served = ask(tmp_path / "hred", tmp_path, anchor)
    assert served[0] == expected, "as people write it"
    assert set(" ".join(map(normalise_query, served)).split()) <= set(data.words())
