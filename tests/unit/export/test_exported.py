import pytest

from nextquery.errors import InputError
from nextquery.export.engines import ExportSettings, exported_queries, frequent_queries
from nextquery.suggesters.base import Suggester


def test_queries_come_by_count_and_only_those_that_may_be_shown(model: Suggester) -> None:
    assert frequent_queries(model, 10) == [("red shoes", 8), ("red boots", 4)]
    assert frequent_queries(model, 1) == [("red shoes", 8)]


def test_what_follows_is_what_the_model_suggests(model: Suggester) -> None:
    first, second = exported_queries(model, ExportSettings())
    assert [item.text for item in first.following] == ["red boots"]
    assert second.following == ()


def test_sizes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="`queries` 0"):
        ExportSettings(queries=0)
