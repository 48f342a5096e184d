"""Reports that count searches: they name queries, but neither visitors nor times.

Such a file cannot become sessions. It is recognised only to say so, and what to export instead.
"""

import re

from nextquery.logs.reading.samples import Sample

_REPORTS = (
    (
        {"searchterm", "eventcount"},
        "GA4",
        "export events to BigQuery and extract them as JSON (format ga4)",
    ),
    (
        {"label", "nbvisits"},
        "Matomo",
        "export the visits log, Live.getLastVisitsDetails as JSON (format matomo)",
    ),
    (
        {"keyword", "searches", "searchexits"},
        "Matomo",
        "export the visits log, Live.getLastVisitsDetails as JSON (format matomo)",
    ),
    (
        {"search", "count", "nbhits"},
        "Algolia",
        "save the logs of requests, GET /1/logs (format algolia)",
    ),
    (
        {"topqueries", "clicks", "impressions"},
        "the Google Search Console",
        "use a log of the site's own search",
    ),
)
_VISITS = {"idvisit", "visitorid"}
_MOST_LINES = 30


def describe_report(sample: Sample) -> str | None:
    """What a report of counts is, and what to export instead; None if the file is none.

    >>> from pathlib import Path
    >>> lines = ("# Site search", "Search term,Event count,Total users", "red shoes,12,9")
    >>> (describe_report(Sample(Path("report.csv"), lines)) or "")[:46]
    'a report of GA4 that counts searches: it names'
    """
    for line in sample.lines[:_MOST_LINES]:
        names = {re.sub(r"[^a-z]", "", name.lower()) for name in re.split(r'[,;\t{}:"]', line)}
        if names >= _VISITS and "{" not in line:
            return (
                "Matomo's visits log as a table, which has its searches in numbered columns; "
                "export it as JSON, format=json in the address (format matomo)"
            )
        for columns, service, instead in _REPORTS:
            if columns <= names:
                return (
                    f"a report of {service} that counts searches: it names neither visitors nor "
                    f"times, so there are no sessions in it; {instead}"
                )
    return None
