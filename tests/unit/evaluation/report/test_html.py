from nextquery.evaluation.report import html


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
