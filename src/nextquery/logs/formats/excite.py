"""The Excite log of 1997: user, time (yymmddhhmmss) and query, between tabs."""

import re

from nextquery.logs.formats.layouts.delimited_format import DelimitedFormat, most_rows_match
from nextquery.logs.formats.layouts.delimited_layout import DelimitedLayout
from nextquery.logs.reading.samples import Sample
from nextquery.logs.reading.settings import ReadSettings

EXCITE_LAYOUT = DelimitedLayout(
    separator="\t", widths=(3,), user=0, time=1, query=2, click=None, time_pattern="%y%m%d%H%M%S"
)
_TIME = re.compile(r"\d{12}")


class ExciteFormat(DelimitedFormat):
    """Lines of 3 fields, no clicks, no header."""

    name = "excite"

    def recognise(self, sample: Sample, settings: ReadSettings) -> str | None:
        """Lines whose second field is a time of twelve digits."""
        if settings.columns is None and most_rows_match(
            sample.lines, (3,), lambda fields: _TIME.fullmatch(fields[1])
        ):
            return "most of its first lines are user, yymmddhhmmss and query"
        return None

    def layout(self, sample: Sample, settings: ReadSettings) -> DelimitedLayout:
        """The same for every file."""
        return EXCITE_LAYOUT
