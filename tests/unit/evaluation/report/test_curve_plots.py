from dataclasses import replace
from pathlib import Path

from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.report.plots import curve_sentences, curve_table, draw_learning_curve


def test_the_curve_is_drawn(curve: LearningCurve, tmp_path: Path) -> None:
    draw_learning_curve(curve, ("hred",), tmp_path / "curve.svg")

    drawn = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")
    assert "mathdefault" not in drawn
    assert "2,000" in drawn


def test_the_sentence_says_where_it_pays_and_what_was_fitted_anew(curve: LearningCurve) -> None:
    assert curve_sentences(curve, ("hred",)) == [
        "HRED begins to pay at about 2,000 background sessions. "
        "It is the same model at every size: only counts and rankers were fitted anew."
    ]
    trained = replace(curve, refitted=(*curve.refitted, "hred"), points=curve.points[:1])
    assert curve_sentences(trained, ("hred",)) == [
        "HRED does not pay (p < .01 by user) at the largest size measured. "
        "It was trained anew at every size."
    ]
    from_the_first = replace(curve, points=curve.points[1:])
    assert curve_sentences(from_the_first, ("hred",))[0].startswith(
        "HRED pays already at the smallest size measured, 2,000 background sessions."
    )


def test_the_table_has_one_row_per_size(curve: LearningCurve) -> None:
    text = curve_table(curve, ("hred",))

    assert text.count("<tr>") == 4
    assert "<th>2,000</th><td>200</td><td>0.3000</td><td>0.4000</td>" in text
    assert "+25.0%<small>p = 0.001</small>" in text
    few = replace(curve.points[0], ranking={}, comparisons=(), too_few="3 cases")
    assert "too few cases" in curve_table(replace(curve, points=(few,)), ("hred",))
