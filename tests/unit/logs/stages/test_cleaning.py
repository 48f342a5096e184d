import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.logs.cleaning import CleaningRules, clean_texts, normalise_texts
from nextquery.normalise import normalise_query

TEXTS = st.lists(st.one_of(st.text(), st.text(alphabet=st.characters(codec="ascii"))))


@given(TEXTS)
def test_the_vector_rule_is_the_one_rule(texts: list[str]) -> None:
    series = pl.Series("query", texts, dtype=pl.String)
    assert normalise_texts(series).to_list() == [normalise_query(text) for text in texts]


def _drops(rules: CleaningRules, *queries: str) -> list[str | None]:
    batch = pl.DataFrame({"raw_id": range(len(queries)), "query": queries})
    return clean_texts(batch, rules)["drop"].to_list()


def test_each_query_is_dropped_for_its_reason() -> None:
    queries = ("!?", "call 555-123-4567", "www.example.com", "red shoes")
    assert _drops(CleaningRules(), *queries) == ["empty", "personal", None, None]
    assert _drops(CleaningRules(drop_urls=True), *queries) == ["empty", "personal", "url", None]
    assert _drops(CleaningRules(keep_personal_data=True), *queries) == ["empty", None, None, None]


def test_the_text_of_a_dropped_query_goes_no_further() -> None:
    batch = pl.DataFrame({"raw_id": [0, 1], "query": ["me@example.com", "red shoes"]})
    assert clean_texts(batch, CleaningRules())["query"].to_list() == [None, "red shoes"]


@pytest.mark.parametrize(
    ("query", "dropped"),
    [
        ("http://example.com/a", True),
        ("www example com", True),
        ("example.co.uk", True),
        ("Example.COM", True),
        ("example com", True),
        ("dot com bubble", False),
        ("st. louis", False),
        ("asp.net", True),
        ("communication", False),
    ],
)
def test_addresses(query: str, dropped: bool) -> None:
    (drop,) = _drops(CleaningRules(drop_urls=True), query)
    assert (drop == "url") == dropped
