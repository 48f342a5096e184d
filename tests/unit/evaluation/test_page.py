from nextquery.evaluation import page


def test_texts_of_the_log_cannot_become_markup() -> None:
    evil = '<script>alert(1)</script>" onload="x'
    text = page.document(
        evil,
        evil,
        [("a", evil)],
        [
            page.section("a", evil, page.paragraph(evil, evil), page.heading(evil)),
            page.table([evil], [[page.Cell(evil, evil, evil)]], evil),
            page.figure(evil, evil, evil),
            page.bullets([evil]),
        ],
    )

    assert "<script" not in text
    assert '" onload' not in text


def test_the_first_column_names_the_row() -> None:
    text = page.table(["System", "MRR"], [["ADJ", page.Cell("0.5", "good", "small print")]])

    assert "<tr><th>ADJ</th>" in text
    assert '<td class="good">0.5<small>small print</small></td>' in text
