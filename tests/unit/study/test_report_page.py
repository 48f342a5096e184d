from html.parser import HTMLParser

from nextquery.study.judgements import NOT_USEFUL, SOMEWHAT, USEFUL
from nextquery.study.report import TopicTable, study_page, who_is_missing
from nextquery.study.results import Agreement, GroupResults, ModelResults, Share, StudyResults

HOSTILE = "<script>alert(1)</script>"


class _Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def _results(missing: dict[int, int], name: str = "A") -> StudyResults:
    shares = {grade: Share(1 / 3, 0.2, 0.5) for grade in (USEFUL, SOMEWHAT, NOT_USEFUL)}
    model = ModelResults(name, 10, 10, 2, shares, Share(0.58, 0.51, 0.66), 0.6)
    group = GroupResults((0,), 1, (model,), (), Agreement(None, 0.5, 4))
    judged = {1: 4 - missing.get(1, 0), 2: 4 - missing.get(2, 0)}
    return StudyResults({"all": group}, judged, {1: 0.5, 2: None}, 4, missing, not missing)


def _page(results: StudyResults, text: str = "q") -> _Tags:
    return _Tags(study_page(results, TopicTable(["topic", "query"], [[0, text]]), "<svg></svg>"))


def test_a_complete_study_says_so_and_stands_beside_the_paper() -> None:
    page = _page(_results({}))
    assert "Complete: every assessor" in page.text
    assert "interim" not in page.text
    assert "58% (51-66)" in page.text
    assert "HRED in the paper" in page.text
    assert "64%" in page.text


def test_an_unfinished_study_is_interim_and_names_who_is_missing() -> None:
    results = _results({2: 3})
    page = _page(results)
    assert who_is_missing(results) == "Not complete: assessor 2 (3 of 4 left)."
    assert page.text.count("interim, not complete") == 2  # title and heading
    assert "assessor 2 (3 of 4 left)" in page.text


def test_hostile_names_and_texts_stay_text() -> None:
    page = _page(_results({}, HOSTILE), HOSTILE)
    assert "script" not in page.tags
    assert page.text.count(HOSTILE) == 3  # beside the paper, the group's table, the topic
