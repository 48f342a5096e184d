import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nextquery.errors import InputError
from nextquery.records import Suggestion
from nextquery.study.judgements import NOT_USEFUL, SOMEWHAT, USEFUL, JudgementStore
from nextquery.study.pool import Topic, create_study, read_pool
from nextquery.study.report import make_report

VALUES = {"guide": USEFUL, "book": USEFUL, "price": SOMEWHAT, "movie": SOMEWHAT}


class _Fixed:
    kind = "fixed"

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def suggest(self, context: object, n: int = 5) -> list[Suggestion]:
        return [Suggestion(text, 0.0, "made up") for text in self.texts[:n]]


def _judge_all(study: Path, assessors: int) -> None:
    store = JudgementStore(study)
    for assessor in range(1, assessors + 1):
        for topic in read_pool(study).topics:
            for item in topic.items:
                word = item.text.split()[-1]
                good = USEFUL if word in ("guide", "book") else SOMEWHAT
                store.judge(
                    assessor, item.id, NOT_USEFUL if word in ("zzz", "qqq", "xxx") else good
                )


def test_the_report_recovers_known_preferences(study: Path, tmp_path: Path) -> None:
    _judge_all(study, 2)
    report = make_report(study, tmp_path / "report")
    assert [m.model for m in report.groups["all"].models] == [
        "SecretGood",
        "SecretMixed",
        "SecretBad",
    ]
    good = report.groups["all"].models[0]
    assert good.shares[USEFUL].value == pytest.approx(2 / 3)
    assert report.groups["all"].agreement.fleiss_kappa == pytest.approx(1)
    assert len(report.groups["with context"].topics) == 1


def test_the_files_agree(study: Path, tmp_path: Path) -> None:
    _judge_all(study, 2)
    make_report(study, tmp_path / "report")
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert results["groups"]["all"]["models"][0]["model"] == "SecretGood"
    with (tmp_path / "report" / "judgements.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    # 2 assessors x 2 topics x (3 + 2 + 3 suggestions)
    assert len(rows) == 32
    page = (tmp_path / "report" / "index.html").read_text()
    assert "<svg" in page
    assert "SecretMixed" in page
    for name in ("judgements.csv", "topics.csv", "index.html"):
        mode = (tmp_path / "report" / name).stat().st_mode
        assert mode & 0o077 == 0, name  # topics may be sessions of single visitors


def test_a_study_that_nobody_has_judged_says_what_to_do(study: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match="study serve"):
            make_report(study, tmp_path / "report")
        JudgementStore(study).tokens(3)  # links alone are no judgements
    assert not (tmp_path / "report").exists()


def test_who_has_a_link_and_has_not_judged_is_missing(study: Path, tmp_path: Path) -> None:
    JudgementStore(study).tokens(3)
    _judge_all(study, 2)
    results = make_report(study, tmp_path / "report")
    assert (results.complete, results.missing) == (False, {3: 14})
    assert json.loads((tmp_path / "report" / "manifest.json").read_text())["complete"] is False
    _judge_all(study, 3)
    assert make_report(study, tmp_path / "report").complete


HOSTILE = [
    "A$\\frac$",
    "$$",
    "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>",
    "@x",
    "-->",
    'a,b"c',
]


def test_hostile_names_and_texts_reach_every_file_as_text(tmp_path: Path) -> None:
    topics = [Topic(text, text, (text,)) for text in HOSTILE]
    models = {name: _Fixed(*HOSTILE) for name in HOSTILE}
    create_study(tmp_path / "study", topics, models)  # type: ignore[arg-type]
    _judge_all(tmp_path / "study", 1)
    make_report(tmp_path / "study", tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text()
    assert "<script" not in page
    assert "A$\\frac$" in page
    ElementTree.parse(tmp_path / "report" / "figure8.svg")
    for name in ("topics.csv", "judgements.csv"):
        with (tmp_path / "report" / name).open(newline="") as stream:
            rows = list(csv.reader(stream))
        assert not [c for row in rows for c in row if c[:1] in ("=", "@", "+", "-")]
