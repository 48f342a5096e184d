"""A Chinese and an Arabic log, and the models of each: an adjacency model and a trained HRED."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import nextquery

HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"


@dataclass(frozen=True)
class Language:
    """What a synthetic log is made of: cities and what people look for in them."""

    things: tuple[str, ...]
    cities: tuple[str, ...]
    pattern: str
    word: str
    """A word that must be in the vocabulary."""

    def query(self, thing: int, city: int = 0) -> str:
        """The query that people type for a thing in a city."""
        return self.pattern.format(self.things[thing], self.cities[city])


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


def make_models(name: str, folder: Path) -> None:
    """Make `folder/data`, `folder/adjacency` and `folder/hred`, whose text-quality gate is on."""
    _write_log(folder / "log.tsv", LANGUAGES[name])
    data = nextquery.prepare(folder / "log.tsv", folder / "data", spelling=False)
    nextquery.fit(data, "adjacency", folder / "adjacency")
    nextquery.train(data, folder / "hred", "tiny", ["train.epochs=40", "train.rate=0.01"])


def _write_log(path: Path, language: Language) -> None:
    """Sessions that stay in one city and go through what it has in a fixed order."""
    draw, start = random.Random(1), datetime(2024, 1, 1)
    lines = [HEADER]
    for number in range(240):
        city, first = draw.randrange(len(language.cities)), draw.randrange(2)
        for step in range(3):
            time = start + timedelta(hours=8 * number, minutes=step)
            query = language.query(first + step, city)
            lines.append(f"u{number % 50}\t{query}\t{time:%Y-%m-%d %H:%M:%S}\t\t\n")
    path.write_text("".join(lines), encoding="utf-8")
