"""Raw queries become normalised ones; some are dropped, each for a named reason.

Runs on distinct raw queries, in batches, with the one rule of `nextquery.normalise`. Knows nothing
of users, times or engines.
"""

from dataclasses import dataclass

import polars as pl

from nextquery.logs.privacy import mark_personal
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


def clean_texts(batch: pl.DataFrame, rules: CleaningRules) -> pl.DataFrame:
    """Normalise a batch of `raw` queries; `drop` names why a query is left out."""
    texts = batch.select("raw", normalise_texts(batch["raw"]).alias("query"))
    reasons: dict[str, pl.Expr | pl.Series] = {EMPTY: pl.col("query") == ""}
    if not rules.keep_personal_data:
        reasons[PERSONAL] = mark_personal(texts["raw"]) | mark_personal(texts["query"])
    if rules.drop_urls:
        reasons[URL] = _looks_like_url()
    first = pl.coalesce(pl.when(holds).then(pl.lit(name)) for name, holds in reasons.items())
    return texts.with_columns(drop=first)


def normalise_texts(texts: pl.Series) -> pl.Series:
    """`normalise_query` of every text, with vector operations where the text is plain ASCII."""
    plain = (
        texts.str.to_lowercase()
        .str.replace_all("['`]", "")
        .str.replace_all("[^a-z0-9]+", " ")
        .str.strip_chars(" ")
    )
    other = (texts.str.len_bytes() != texts.str.len_chars()).arg_true()
    if other.is_empty():
        return plain
    return plain.scatter(other, [normalise_query(text) for text in texts.gather(other).to_list()])


def _looks_like_url() -> pl.Expr:
    typed = pl.col("raw").str.to_lowercase().str.contains(_URL_TYPED)
    return typed | pl.col("query").str.contains(_URL_NORMALISED)
