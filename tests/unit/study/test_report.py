import csv
import json
from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.study.judgements import NOT_USEFUL, SOMEWHAT, USEFUL, JudgementStore
from nextquery.study.pool import read_pool
from nextquery.study.report import make_report

VALUES = {"guide": USEFUL, "book": USEFUL, "price": SOMEWHAT, "movie": SOMEWHAT}


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


def test_a_study_that_nobody_has_judged_says_what_to_do(study: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="study serve"):
        make_report(study, tmp_path / "report")
