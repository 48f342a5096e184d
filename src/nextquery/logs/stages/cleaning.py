"""Raw queries become normalised ones; some are dropped, each for a named reason.

Runs on distinct raw queries, in batches, with the one rule of `nextquery.normalise`. Knows nothing
of users, times or engines.
"""

from dataclasses import dataclass

import polars as pl

from nextquery.logs.stages.privacy import Recogniser, mark_personal, mark_personal_typed
from nextquery.normalise import normalise_query

EMPTY, PERSONAL, URL = "empty", "personal", "url"
DROP_REASONS = (EMPTY, PERSONAL, URL)

_URL_TYPED = r"https?:|www\.|[a-z0-9]\.(?:com|net|org|edu|gov|mil|info|biz|tv|us|co\.uk|ca|de|fr)\b"
_URL_NORMALISED = r"^(?:https? )?www\b| (?:com|net|org|edu|gov)$"


@dataclass(frozen=True)
class CleaningRules:
    """Which queries are dropped."""

    keep_personal_data: bool = False
    drop_urls: bool = False
    recogniser: Recogniser | None = None
    """What a site drops beside what this package recognises."""


def clean_texts(batch: pl.DataFrame, rules: CleaningRules) -> pl.DataFrame:
    """Normalise a batch of `query`; `drop` names why it is left out, and its text goes too."""
    raw, query = batch["query"], normalise_texts(batch["query"])
    reasons = {EMPTY: query == ""}
    if not rules.keep_personal_data:
        reasons[PERSONAL] = mark_personal_typed(raw, rules.recogniser) | mark_personal(query)
    if rules.drop_urls:
        reasons[URL] = _looks_like_url(raw, query)
    drop = pl.coalesce(pl.when(holds).then(pl.lit(name)) for name, holds in reasons.items())
    texts = batch.select("raw_id", query, drop.alias("drop"))
    return texts.with_columns(query=pl.when(pl.col("drop").is_null()).then("query").otherwise(None))


def normalise_texts(texts: pl.Series) -> pl.Series:
    """`normalise_query` of every text, with vector operations where the text is plain ASCII."""
    plain = (
        texts.str.to_lowercase()
        .str.replace_all("['`]", "")
        .str.replace_all("[^a-z0-9]+", " ")
        .str.strip_chars(" ")
    )
    other = (texts.str.len_bytes() != texts.str.len_chars()) | texts.str.contains("[@$]")
    other = other.arg_true()
    if other.is_empty():
        return plain
    return plain.scatter(other, [normalise_query(text) for text in texts.gather(other).to_list()])


def _looks_like_url(raw: pl.Series, query: pl.Series) -> pl.Series:
    typed = raw.str.to_lowercase().str.contains(_URL_TYPED)
    return typed | query.str.contains(_URL_NORMALISED)
