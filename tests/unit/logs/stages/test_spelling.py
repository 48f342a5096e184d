import polars as pl
import pytest

from nextquery.logs.cleaning import correct_texts
from nextquery.logs.spelling import Counted, Speller, inflected, learn_spelling

WORDS = {
    "university": Counted(5000, 400),
    "ohio": Counted(900, 100),
    "state": Counted(3000, 300),
    "hotel": Counted(4000, 300),
    "hotels": Counted(150, 50),
    "park": Counted(800, 90),
    "beach": Counted(2000, 200),
    "bench": Counted(40, 20),
    "garden": Counted(700, 90),
    "new": Counted(6000, 500),
    "york": Counted(2500, 300),
    "newyork": Counted(30, 20),
    "planted": Counted(100_000, 1),
    "zebra": Counted(9, 5),
    "univeristy": Counted(4, 3),
}
PAIRS = {
    ("ohio", "state"): Counted(400, 80),
    ("state", "university"): Counted(300, 90),
    ("garden", "bench"): Counted(20, 10),
    ("beach", "hotel"): Counted(900, 60),
    ("new", "york"): Counted(2400, 280),
    ("park", "planted"): Counted(90_000, 1),
}
QUERIES = ("univeristy", "beech", "bench", "plantet", "planetd", "stat", "hotles", "zebro")


@pytest.fixture(scope="module")
def speller() -> Speller:
    return learn_spelling([*WORDS, *QUERIES], WORDS, PAIRS)


def _correct(speller: Speller, query: str) -> str:
    batch = pl.DataFrame({"query_id": [0], "query": [query]})
    return str(correct_texts(batch, speller)["query"][0])


@pytest.mark.parametrize(
    ("query", "corrected"),
    [
        ("univeristy", "university"),  # long, with a far more frequent twin
        ("ohio state univeristy", "ohio state university"),
        ("beech hotel", "beach hotel"),  # the neighbour decides
        ("beech", "beech"),  # short and alone: left alone
        ("garden bench", "garden bench"),  # its own neighbour speaks for it
        ("newyork hotel", "new york hotel"),  # run together
        ("hotels", "hotels"),  # an inflection is another word
        ("plantet", "plantet"),  # one user cannot plant a target
        ("park planetd", "park planetd"),
        ("zebro", "zebro"),  # the twin is rare itself
        ("stat 1234567", "stat 1234567"),
    ],
)
def test_corrections(speller: Speller, query: str, corrected: str) -> None:
    assert _correct(speller, query) == corrected


def test_changes_are_listed() -> None:
    speller = learn_spelling(["univeristy", "newyork"], WORDS, PAIRS)
    batch = pl.DataFrame({"query_id": [0, 1], "query": ["univeristy of newyork", "hotel"]})
    changes = correct_texts(batch, speller)["changes"].to_list()
    assert changes == ["univeristy>university\nnewyork>new york", None]


def test_a_corrected_word_is_not_corrected_again() -> None:
    counts = {"colour": Counted(20, 5), "color": Counted(400, 40), "colours": Counted(1, 1)}
    speller = learn_spelling(counts, counts, {})
    once = _correct(speller, "colours colour")
    assert _correct(speller, once) == once


@pytest.mark.parametrize(
    ("one", "other", "forms"),
    [
        ("depressive", "depression", True),
        ("hoteles", "hotels", False),  # two endings of one group: a slip
        ("flower", "flowers", True),
        ("printing", "printed", True),
        ("nation", "national", True),
        ("depressoin", "depression", False),
        ("existance", "existence", False),
        ("flowres", "flowers", False),
        ("yahooo", "yahoo", False),
        ("read", "real", False),  # no stem in common
    ],
)
def test_forms_of_one_stem_are_told_from_slips(one: str, other: str, forms: bool) -> None:
    assert inflected(one, other) is inflected(other, one) is forms


def test_a_rare_form_of_a_frequent_word_is_left_alone() -> None:
    words = {"depression": Counted(5000, 400), "depressive": Counted(6, 3)}
    pairs = {("manic", "depression"): Counted(90, 30)}
    counts = {**words, "manic": Counted(100, 30)}
    speller = learn_spelling([*words, "depresion"], counts, pairs)
    assert _correct(speller, "manic depressive") == "manic depressive"
    assert _correct(speller, "manic depresion") == "manic depression"
