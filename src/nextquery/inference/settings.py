"""The settings of decoding."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from nextquery.config import Section
from nextquery.errors import ConfigError
from nextquery.inference.near_duplicates import AUTO, languages
from nextquery.records import Known
from nextquery.settings import split_pair

Mode = Literal["exact", "fast"]

SPECIFICITY = 0.3
"""The default share of a query's log-likelihood without a session that is subtracted."""

SPECIFIC_BEAM = 30
"""Beam search looks at this many queries before it orders them by specificity or usefulness."""

KNOWN_BONUS = 1.0
"""What a known query gains where known ones are preferred: as if it were e times as likely."""

MOST_LOGITS = 7 << 20
"""Scores over the vocabulary that are held at one time: 28 MB."""

MOST_BEAM = 1000
"""The widest beam, and so the longest list."""

FAST_FROM = 10_000
"""Words from which on the fast output layer is the default; below it brings little."""


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {
        "length_normalised": False,
        "specificity": 0.0,
        "usefulness": 0.0,
        "known": "free",
        "quality": False,
        "diversity": 0.0,
        "fold": False,
        "finished_in_beam": True,
    },
}
"""Settings by the name of a preset; a setting that is given itself counts."""


class DecodeConfig(Section):
    """How suggestions are generated."""

    preset: Literal["default", "paper"] = "default"
    """`paper`: other defaults, so that lists are made as in section 3.4 of the paper: by likelihood
    alone, whether known or not, finished queries keeping their places in the beam."""
    mode: Literal["auto", "exact", "fast"] = "auto"
    """The output layer: 32-bit numbers throughout, or 8-bit ones that choose what to compute.
    Auto: fast from 10,000 words on."""
    beam: int = Field(default=10, ge=1, le=MOST_BEAM)
    """Prefixes kept at every step; at least the number of suggestions requested."""
    strategy: Literal["beam", "sample"] = "beam"
    """The most likely queries by beam search, or queries drawn at random by their likelihood."""
    length_normalised: bool = False
    """Rank by log-likelihood per symbol (the authors' code) instead of its sum (the paper)."""
    min_words: int = Field(default=1, ge=1, le=100)
    """Fewest words of a suggestion."""
    max_words: int = Field(default=10, ge=1, le=100)
    """Most words of a suggestion."""
    temperature: float = Field(default=1.0, gt=0.0, le=1000.0)
    """Sampling: above 1 bolder, below 1 safer."""
    top_k: int = Field(default=100, ge=1, le=1_000_000)
    """Sampling: only the k most likely words are drawn from."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    """Sampling: only the most likely words that together reach this probability are drawn from."""
    seed: int = Field(default=0, ge=0)
    """Sampling: the same seed draws the same queries."""
    specificity: float = Field(default=SPECIFICITY, ge=0.0, le=1.0)
    """Rank suggestions by `log P(q | session) - specificity * log P(q | no session)`: above 0 holds
    back globally popular queries; 0 ranks by likelihood alone. Completions are not ranked
    by it."""
    usefulness: float = Field(default=0.0, ge=0.0, le=100.0)
    """Add this many times `log P(useful | q, session)` to a suggestion's value; 0: off. For
    models with a usefulness head. Completions are not ranked by it."""
    known: Known = "prefer"
    """Known queries (typed by at least K users): no matter; ranked higher, and new ones made only
    of words that have stood side by side; or nothing else."""
    quality: bool = True
    """Show generated text only if it reads like a typed query, order suggestions by how likely they
    are typed later in the session, and limit those that only drop words and the most frequent
    queries. False: the lists of the paper's decoding. Models of earlier versions lack the tables
    for it."""
    diversity: float = Field(default=0.0, ge=0.0, le=1.0)
    """How much unlikeness to the suggestions above counts against likelihood; 0: not at all."""
    fold: bool = True
    """Show one of several near-copies: words reordered, a plural, a stop word."""
    finished_in_beam: bool = False
    """A finished query keeps its place in the beam, so that fewer prefixes are continued, as in the
    paper's text. False: the beam is always filled with unfinished ones, which finds more."""
    language: str = AUTO
    """The language of plurals: one that Snowball has; `auto` detects it from the text."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        preset = given.get("preset", "default")
        return {**(PRESETS.get(preset, {}) if isinstance(preset, str) else {}), **given}

    @field_validator("language")
    @classmethod
    def _known_language(cls, language: str) -> str:
        if language not in languages():
            raise ValueError(f"not one of {', '.join(languages())}")
        return language

    def output_mode(self, words: int) -> Mode:
        """The output layer for a vocabulary of `words` words."""
        if self.mode != "auto":
            return self.mode
        return "fast" if words >= FAST_FROM else "exact"

    def for_list(self, n: int) -> Self:
        """The same with a beam that holds `n` suggestions, and those that ranking may lift."""
        reordered = self.specificity > 0 or self.usefulness > 0
        least = SPECIFIC_BEAM if reordered and self.strategy == "beam" else 1
        return self.model_copy(update={"beam": min(max(self.beam, n, least), MOST_BEAM)})

    def pool_size(self, n: int) -> int:
        """How many of the likeliest queries decide a list of `n`: all if they are reordered.

        >>> DecodeConfig().pool_size(5), DecodeConfig(preset="paper").pool_size(5)
        (10, 5)
        """
        reordered = self.specificity > 0 or self.known == "prefer" or self.diversity > 0
        reordered = reordered or self.usefulness > 0 or self.quality
        return self.beam if reordered or self.length_normalised else min(n, self.beam)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min_words > self.max_words:
            raise ValueError(f"min_words {self.min_words} exceeds max_words {self.max_words}")
        return self


def override(
    base: DecodeConfig, values: Mapping[str, Any], sets: Sequence[str] = ()
) -> DecodeConfig:
    """`base` with other values, checked; `sets` are `key=value` texts.

    >>> override(DecodeConfig(), {"preset": "paper"}, ["specificity=0.1"]).specificity
    0.1
    """
    changes = dict(values)
    for text in sets:
        key, value = split_pair(text, "overrides", "key=value, e.g. `max_words=6`", empty=True)
        if key not in DecodeConfig.model_fields:
            names = ", ".join(DecodeConfig.model_fields)
            raise ConfigError(f"`overrides` {text}: no such decode setting; there are: {names}")
        changes[key] = value
    preset = PRESETS.get(str(changes.get("preset", "")), {})
    changed = {**base.model_dump(), **preset, **changes}
    try:
        return DecodeConfig.model_validate(changed)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ConfigError(f"decode setting {key}: {first['msg']}") from None
