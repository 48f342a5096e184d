"""Results of a study: agreement, comparisons, the report and its plots."""

import csv
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from nextquery.errors import InputError
from nextquery.study.pool import (
    NOT_USEFUL,
    SOMEWHAT,
    USEFUL,
    Item,
    Judgement,
    JudgementStore,
    Key,
    Pool,
    PooledTopic,
    Topic,
    create_study,
    read_pool,
)
from nextquery.study.report import draw_shares, make_report, study_page, who_is_missing
from nextquery.study.results import (
    Agreement,
    GroupResults,
    ModelResults,
    Ratings,
    Share,
    StudyResults,
    compare,
    evaluate,
    evaluate_study,
    fleiss_kappa,
    krippendorff_alpha,
)

from .conftest import FixedList

POOL = Pool(
    1,
    (
        PooledTopic(0, Topic("jaguar"), (Item(0, "jaguar car"), Item(1, "jaguar cat"))),
        PooledTopic(1, Topic("python"), (Item(2, "python snake"),)),
    ),
)
KEY = Key(2, {"A": {0: (0, 1), 1: (2,)}, "B": {0: (1,), 1: ()}})
JUDGEMENTS = [
    Judgement(1, 0, USEFUL),
    Judgement(2, 0, NOT_USEFUL),
    Judgement(1, 1, SOMEWHAT),
    Judgement(2, 1, SOMEWHAT),
    Judgement(1, 2, USEFUL),
]


def test_shares_and_gain_by_hand() -> None:
    a, b = evaluate(POOL, KEY, JUDGEMENTS, [0, 1]).models
    # A: item 0 is half useful, half not; item 1 somewhat; item 2 useful.
    assert a.model == "A"
    assert a.shares[USEFUL].value == pytest.approx(1.5 / 3)
    assert a.shares[SOMEWHAT].value == pytest.approx(1 / 3)
    assert a.shares[NOT_USEFUL].value == pytest.approx(0.5 / 3)
    # Topic 0: (1 + 1) of 4, topic 1: 2 of 4.
    assert a.gain == pytest.approx(0.5)
    # B: one somewhat useful suggestion in four places.
    assert b.gain == pytest.approx(0.125)
    assert (b.suggestions, b.topics_covered) == (1, 1)
    # Useful and somewhat useful together.
    assert a.positive.value == pytest.approx(2.5 / 3)
    assert b.positive.value == pytest.approx(1)
    assert a.positive.low <= a.positive.value <= a.positive.high


def test_without_judgements_nothing_breaks() -> None:
    outcome = evaluate(POOL, KEY, [], [0, 1])
    assert all(model.judged == 0 for model in outcome.models)
    assert outcome.agreement.fleiss_kappa is None


def test_contexts_of_a_query_are_one_unit() -> None:
    # "jaguar" twice (two contexts) and "python": two units. A's gains 1/2, 1/4 | 1/2.
    contexts = (("cats",), ("cars",))
    items = ((Item(0, "a"), Item(1, "b")), (Item(2, "c"),))
    jaguars = [PooledTopic(n, Topic("Jaguar", "", contexts[n]), items[n]) for n in (0, 1)]
    pool = Pool(1, (*jaguars, PooledTopic(2, Topic("python"), (Item(3, "d"),))))
    key = Key(2, {"A": {0: (0,), 1: (2,), 2: (3,)}, "B": {0: (1,), 1: (), 2: ()}})
    judged = {0: USEFUL, 1: NOT_USEFUL, 2: SOMEWHAT, 3: USEFUL}
    group = evaluate(pool, key, [Judgement(1, i, v) for i, v in judged.items()], [0, 1, 2])
    a, b = group.models
    assert group.queries == 2
    assert a.gain == pytest.approx(((1 / 2 + 1 / 4) / 2 + 1 / 2) / 2)
    assert b.gain == 0
    assert group.comparisons[0].difference == pytest.approx(a.gain)
    # Shares count suggestions: two of three are useful.
    assert a.shares[USEFUL].value == pytest.approx(2 / 3)
    # Drawn are queries: with two of them the share is 1/2, 2/3 or 1, and never 0 or 1/3.
    assert a.shares[USEFUL].low == pytest.approx(0.5)
    assert a.shares[USEFUL].high == 1


def test_a_study_is_complete_when_every_assessor_has_judged_everything() -> None:
    everything = [Judgement(who, item, USEFUL) for who in (1, 2) for item in range(3)]
    assert evaluate_study(POOL, KEY, everything, [1, 2]).complete
    silent = evaluate_study(POOL, KEY, everything, [1, 2, 3])
    assert not silent.complete
    assert silent.missing == {3: 3}
    assert silent.assessors == {1: 3, 2: 3, 3: 0}
    partly = evaluate_study(POOL, KEY, everything[:-1], [1, 2])
    assert (partly.complete, partly.missing) == (False, {2: 1})
    assert not evaluate_study(POOL, KEY, [], []).complete


PERFECT = [[0, 0, 0], [1, 1, 1], [2, 2, 2]]


@pytest.mark.parametrize(
    ("measure", "ratings", "expected"),
    [
        (fleiss_kappa, PERFECT, 1),
        (krippendorff_alpha, PERFECT, 1),
        (fleiss_kappa, [[0, 0, 0], [2, 2], [1]], 1),  # different numbers of grades
        # P = (1 + 1/3) / 2 = 2/3; shares 2/6 and 4/6: P_e = 1/9 + 4/9 = 5/9.
        (fleiss_kappa, [[2, 2, 2], [2, 0, 0]], (2 / 3 - 5 / 9) / (4 / 9)),
        # Pairs (0,0), (0,2), (2,2): coincidences o00 = 2, o02 = o20 = 1, o22 = 2; n0 = n2 = 3.
        # With two grades in use the ordinal difference is one constant: 1 - 5 * 2 / (2 * 9).
        (krippendorff_alpha, [[0, 0], [0, 2], [2, 2]], 1 - 10 / 18),
    ],
)
def test_agreement_by_hand(
    measure: Callable[[Ratings], float | None], ratings: Ratings, expected: float
) -> None:
    assert measure(ratings) == pytest.approx(expected)


def test_alpha_counts_a_near_miss_less_than_a_far_one() -> None:
    near = krippendorff_alpha([[0, 0], [1, 1], [2, 2], [1, 2]])
    far = krippendorff_alpha([[0, 0], [1, 1], [2, 2], [0, 2]])
    assert near is not None
    assert far is not None
    assert near > far


def test_coin_flips_are_near_zero() -> None:
    ratings = np.random.default_rng(5).integers(0, 3, (4000, 5)).tolist()
    assert fleiss_kappa(ratings) == pytest.approx(0, abs=0.02)
    assert krippendorff_alpha(ratings) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("ratings", [[], [[1]], [[1, 1], [1, 1]]])
def test_undefined_is_none(ratings: list[list[int]]) -> None:
    assert fleiss_kappa(ratings) is None
    assert krippendorff_alpha(ratings) is None


def test_a_clear_difference_is_significant_and_no_difference_is_not() -> None:
    draw = np.random.default_rng(1)
    base = draw.uniform(0, 0.5, 30)
    first, second, *_ = compare({"a": base + 0.3, "b": base, "c": base})
    assert first.p_corrected < 0.01
    assert second.p_corrected < 0.01
    assert compare({"a": base, "b": base})[0].p == 1


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


def test_the_report_recovers_known_preferences_and_its_files_agree(
    study: Path, tmp_path: Path
) -> None:
    _judge_all(study, 2)
    report, folder = make_report(study, tmp_path / "report"), tmp_path / "report"
    models = report.groups["all"].models
    assert [model.model for model in models] == ["SecretGood", "SecretMixed", "SecretBad"]
    assert models[0].shares[USEFUL].value == pytest.approx(2 / 3)
    assert report.groups["all"].agreement.fleiss_kappa == pytest.approx(1)
    assert len(report.groups["with context"].topics) == 1
    results = json.loads((folder / "results.json").read_text())
    assert results["groups"]["all"]["models"][0]["model"] == "SecretGood"
    with (folder / "judgements.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    # 2 assessors x 2 topics x (3 + 2 + 3 suggestions)
    assert len(rows) == 32
    page = (folder / "index.html").read_text()
    assert "<svg" in page
    assert "SecretMixed" in page
    for name in ("judgements.csv", "topics.csv", "index.html"):
        mode = (folder / name).stat().st_mode
        assert mode & 0o077 == 0, name  # topics may be sessions of single visitors


def test_a_study_that_nobody_has_judged_says_what_to_do(study: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match="study serve"):
            make_report(study, tmp_path / "report")
        JudgementStore(study).tokens(3)  # links alone are not judgements
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
    models = {name: FixedList(*HOSTILE) for name in HOSTILE}
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


MARKUP = "<script>alert(1)</script>"


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
    judged = {1: 4 - missing.get(1, 0), 2: 4 - missing.get(2, 0)}
    groups = {"all": _group(name)}
    return StudyResults(groups, judged, {1: 0.5, 2: None}, 4, missing, not missing)


def _page(results: StudyResults, text: str = "q") -> _Tags:
    return _Tags(study_page(results, [["topic", "query"], [0, text]], "<svg></svg>"))


def test_a_complete_study_says_so_next_to_the_papers_results() -> None:
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
    page = _page(_results({}, MARKUP), MARKUP)
    assert "script" not in page.tags
    assert page.text.count(MARKUP) == 3  # the paper, the group's table, the topic


HOSTILE_NAMES = ["A$\\frac$", "$x$", "$$", "\\", "a_b^c", "<script>x</script>", "--><b>", "]]>"]


def _group(*names: str) -> GroupResults:
    shares = {grade: Share(1 / 3, 0.2, 0.5) for grade in (USEFUL, SOMEWHAT, NOT_USEFUL)}
    positive = Share(0.58, 0.51, 0.66)
    models = [ModelResults(name, 10, 10, 2, shares, positive, 0.6) for name in names]
    return GroupResults((0,), 1, tuple(models), (), Agreement(None, 0.5, 4))


def _texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return ["".join(item.itertext()).strip() for item in root.iter() if item.tag.endswith("}text")]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_any_name_is_drawn_as_it_is(name: str) -> None:
    svg = draw_shares(_group(name, "B"))
    assert name in _texts(svg)
    assert "<script" not in svg


def test_a_long_name_is_cut_and_leaves_room() -> None:
    assert "m" * 23 + "…" in _texts(draw_shares(_group("m" * 80, "B")))
