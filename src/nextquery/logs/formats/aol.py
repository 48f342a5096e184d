"""The AOL log of 2006: user, query, time, rank and clicked address, between tabs."""

import re
from dataclasses import replace

from nextquery.logs.formats.layouts.columns import REQUIRED
from nextquery.logs.formats.layouts.delimited_format import DelimitedFormat, most_rows_match
from nextquery.logs.formats.layouts.delimited_layout import DelimitedLayout
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings

HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
AOL_LAYOUT = DelimitedLayout(
    separator="\t", widths=(3, 5), user=0, query=1, time=2, click=4, header=HEADER
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")


class AolFormat(DelimitedFormat):
    """Lines of 5 fields, or of 3 where nothing was clicked; the header may be missing."""

    name = "aol"

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """The header, or lines whose third field is a time."""
        if settings.columns is not None:
            return None
        first = sample.lines[0]
        if first.lower() == HEADER.lower():
            return f"its first line is the header {', '.join(first.split(chr(9)))}"
        if {*map(str.casefold, first.split("\t"))} >= set(REQUIRED):
            return None  # a header of names that tsv knows, perhaps in another order
        if most_rows_match(sample.lines, (3, 5), lambda fields: _TIME.match(fields[2])):
            return "most of its first lines are user, query and time, between tabs"
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> DelimitedLayout:
        """The AOL layout with the header as this file spells it."""
        if sample.lines and sample.lines[0].lower() == HEADER.lower():
            return replace(AOL_LAYOUT, header=sample.lines[0])
        return AOL_LAYOUT
