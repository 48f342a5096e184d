"""A blind user study of suggestions (the paper's section 4.7).

topics + models --create--> STUDY folder --serve--> judgements --report--> who is better
"""

from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import InputError
from nextquery.settings import check_limits, setting


@dataclass(frozen=True)
class StudySettings:
    """Which topics a study has, and how many suggestions of each model."""

    topics: Path | None = None
    """TREC XML, CSV with a column "query", or lines."""
    sample: int = setting(50, least=1)
    """Without `topics`: how many test sessions to draw."""
    max_contexts: int | None = setting(None, least=1)
    """Contexts per topic of `topics`; all by default."""
    places: int = setting(5, least=1)
    """Suggestions per model and topic."""
    seed: int = 1
    """Seed of draws and shuffles."""

    def __post_init__(self) -> None:
        check_limits(self)
        if self.topics is None and self.max_contexts is not None:
            raise InputError("`max_contexts` needs `topics`: a drawn session has one context")
