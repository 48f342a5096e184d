"""An audit in words: every figure stands on the page."""

from nextquery.evaluation.audit import AuditResult, Coverage, KindExposure, describe
from nextquery.evaluation.planting import Exposure, PoisonCurve, PoisonPoint

RESULT = AuditResult(
    model="models/adj",
    kind="adjacency",
    min_users=3,
    secrets=1024,
    chance_bits=1.44,
    exposures=(
        KindExposure(
            "adjacency",
            (Exposure(0, 10, 1.3, 4.1, 0), Exposure(1, 10, 1.5, 3.9, 0)),
            (Exposure(1, 10, 9.7, 10.0, 8),),
        ),
    ),
    poisoning=(
        PoisonCurve("adjacency", 3, (PoisonPoint(1, 10, 0), PoisonPoint(5, 10, 6))),
        PoisonCurve("adjacency", 10, (PoisonPoint(1, 10, 0), PoisonPoint(5, 10, 0))),
    ),
    coverage=Coverage(2, 7, 0.0123, 200, {"blocklist": 9}, 0, {"leetspeak": 0.5}),
    not_made=("hred: training takes long",),
)


def test_the_page_says_it_in_words() -> None:
    page = describe(RESULT)
    rows = [line.split() for line in page.splitlines()]
    assert ["nobody", "1.3", "4.1", "0", "of", "10", "-", "-", "-"] in rows
    assert ["1", "user", "1.5", "3.9", "0", "of", "10", "9.7", "10.0", "8", "of", "10"] in rows
    assert ["adjacency,", "3", "0%", "60%", "with", "5"] in rows
    assert ["adjacency,", "10", "0%", "0%", "more"] in rows
    assert "1.4 bits is chance, 10 bits means that it is the first guess of 1,024" in page
    assert "7 known queries of the log hold one (1.23% of what was typed)" in page
    assert "leetspeak 50%" in page
    assert page.endswith("Not made again: hred: training takes long.")
