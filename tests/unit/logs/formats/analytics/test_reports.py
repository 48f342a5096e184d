"""Reports of counts are recognised, and refused with what to export instead."""

from pathlib import Path

import pytest

from nextquery.errors import LogError
from nextquery.logs.formats.analytics import describe_report
from nextquery.logs.formats.detection import choose_format
from nextquery.logs.reading.open import Sample
from nextquery.logs.settings import ReadSettings

GA4 = """# ----------------------------------------
# Search terms
# Shop
# 20240101-20240131
# ----------------------------------------
Search term,Event count,Total users,Event count per active user
red shoes,120,96,1.25"""
MATOMO = "label,nb_visits,nb_hits,sum_time_spent,nb_pages_per_search,exit_rate\nred shoes,96,120"
ALGOLIA = '{"searches":[{"search":"red shoes","count":120,"nbHits":14}]}'
CONSOLE = "Top queries,Clicks,Impressions,CTR,Position\nred shoes,12,120,10%,3.1"


@pytest.mark.parametrize(
    ("text", "service", "instead"),
    [
        (GA4, "GA4", "format ga4"),
        (MATOMO, "Matomo", "Live.getLastVisitsDetails"),
        (ALGOLIA, "Algolia", "GET /1/logs"),
        (CONSOLE, "the Google Search Console", "the site's own search"),
    ],
)
def test_counts_are_no_log(text: str, service: str, instead: str) -> None:
    sample = Sample(Path("report.csv"), tuple(text.split("\n")))
    with pytest.raises(LogError, match=rf"report.csv: a report of {service} that counts") as error:
        choose_format([sample], ReadSettings())
    assert instead in str(error.value)


def test_a_log_is_no_report() -> None:
    assert describe_report(Sample(Path("log"), ("user,time,query", "1,2,search term"))) is None
