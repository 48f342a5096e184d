"""docs/results/experiments.md with its tables written anew, between markers.

A block of the page begins with `<!-- evidence: NAME -->` and ends with `<!-- end -->`; NAME is a
key of `TABLES`. What stands between is written here and nowhere else.
"""

import re
from collections.abc import Callable, Mapping

from research import (
    earlier,
    few_users,
    one_domain,
    presentations,
    size_tables,
    small_log_tables,
    tables,
)

PAGE = tables.ROOT / "docs" / "results" / "experiments.md"
_BLOCK = re.compile(r"(<!-- evidence: ([a-z_ ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str) -> str:
    """The page with every block written anew."""
    return _BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}", text)


TABLES: Mapping[str, Callable[[], str]] = {
    "made_up gains": tables.made_up_gains,
    "made_up lengths": tables.by_length,
    "made_up contexts": tables.by_context,
    "made_up intent": tables.intent,
    "learning": one_domain.shown,
    "presentations": presentations.shown,
    "control gains": lambda: tables.made_up_gains("control"),
    "aol new visitors": lambda: tables.new_visitors("aol"),
    "aol bagged": few_users.shown,
    "aol known": tables.known_visitors,
    "aol plain": lambda: tables.known_visitors("aol_plain"),
    "aol leak": tables.leak,
    "aol contexts": size_tables.contexts,
    "aol positions": size_tables.positions,
    "earlier numbers": earlier.numbers,
    "earlier rankers": earlier.rankers,
    "earlier letters": earlier.letters,
    "log sizes": size_tables.sizes,
    "log sizes sentences": size_tables.sentences,
    "small logs ngrams": small_log_tables.ngrams,
    "small logs perplexities": small_log_tables.perplexities,
    "small logs rankers": small_log_tables.rankers,
    "small logs pairs": small_log_tables.pairs,
    "aol meaning": lambda: tables.meaning("aol"),
    "aol meaning contexts": tables.meaning_in_contexts,
}
"""Every block of the page by name."""
