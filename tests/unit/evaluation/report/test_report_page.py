"""The page of the report, and the HTML that it is made of."""

import re
from dataclasses import replace
from pathlib import Path

from nextquery.evaluation.learning_curve import LearningCurve
from nextquery.evaluation.report import html
from nextquery.evaluation.report.page import write_report
from nextquery.evaluation.results import ExperimentResults


def test_the_page_says_what_was_found_beside_the_paper(
    results: ExperimentResults, tmp_path: Path
) -> None:
    write_report(tmp_path, results)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")

    sentence = (
        "Next-query prediction: HRED&#x27;s log-likelihood as one more feature, as in the paper, "
        "changes the Baseline Ranker&#x27;s MRR by +25.0% (p &lt; .001, &lt; .001 by case, "
        "significant); in the forms that validation chose, by +30.0% (p &lt; .001, &lt; .001 by "
        "case, significant); 200 test cases. The paper&#x27;s gain is +3.3%."
    )
    assert f"<li>{sentence}" in page
    assert f"<li>New visitors, {sentence}" in page
    assert "HRED was trained with these users&#x27; own background sessions." in page
    assert "Long-tail prediction: too few cases for any result" in page
    plots = re.findall(r'<img src="([^"]+)"', page)
    assert len(plots) == 11
    assert all((tmp_path / plot).is_file() for plot in plots)
    written = {file.name for file in (tmp_path / "tables").iterdir()}
    assert written == {"next_query.tex", "new_next_query.tex"}


def test_a_learning_curve_has_a_part_of_its_own(
    results: ExperimentResults, curve: LearningCurve, tmp_path: Path
) -> None:
    write_report(tmp_path, replace(results, learning_curve=curve))
    page = (tmp_path / "index.html").read_text(encoding="utf-8")

    assert "HRED begins to pay at about 2,000 background sessions." in page
    assert (tmp_path / "figures" / "learning_curve.svg").is_file()


def test_parts_without_results_are_left_out(results: ExperimentResults, tmp_path: Path) -> None:
    bare = replace(
        results,
        scenarios={"long_tail": results.scenarios["long_tail"]},
        gates={},
        hidden_intent={},
        projections={},
        new_visitors={},
    )
    write_report(tmp_path, bare)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")

    for anchor in ("visitors", "curve", "lengths", "gates", "intent", "vectors", "features"):
        assert f'id="{anchor}"' not in page
    assert 'id="scenarios"' in page


def test_a_model_that_copies_is_named_so(results: ExperimentResults, tmp_path: Path) -> None:
    copying = replace(results.training["hred"], model={"copy": True})
    write_report(tmp_path, replace(results, training={"hred": copying}))
    page = (tmp_path / "index.html").read_text(encoding="utf-8")

    assert "<li>Next-query prediction: HRED with copying&#x27;s log-likelihood" in page
    assert ">HRED with copying on a log with" in page
    assert "bars their 95% intervals. HRED stands for HRED with copying." in page


def test_texts_of_the_log_cannot_become_markup() -> None:
    evil = '<script>alert(1)</script>" onload="x'
    text = html.document(
        evil,
        evil,
        [("a", evil)],
        [
            html.section("a", evil, html.paragraph(evil, evil), html.heading(evil)),
            html.table([evil], [[html.Cell(evil, evil, evil)]], evil),
            html.plot(evil, evil, evil),
            html.bullets([evil]),
        ],
    )

    assert "<script" not in text
    assert '" onload' not in text


def test_the_first_column_names_the_row() -> None:
    text = html.table(["System", "MRR"], [["ADJ", html.Cell("0.5", "good", "small print")]])

    assert "<tr><th>ADJ</th>" in text
    assert '<td class="good">0.5<small>small print</small></td>' in text
