"""The settings by which every count model lets observations count for more or for less."""

from pydantic import Field

from nextquery.config import Section


class AgingSettings(Section):
    """How the age of an observation counts, in days before the last day of the background; and use.

    >>> AgingSettings().ages, AgingSettings(window_days=30).ages
    (False, True)
    """

    half_life_days: float | None = Field(default=None, gt=0)
    """Days after which an occurrence counts half; none: all count the same."""
    window_days: int | None = Field(default=None, ge=1)
    """The last days of the background that count at all; none: every day."""
    useful_weight: float = Field(default=1.0, ge=1.0, le=1000.0)
    """How often a query counts that is always useful: clicked, and no other query within a minute.
    One that is useful half of the time counts for half of the difference."""

    @property
    def ages(self) -> bool:
        """Whether the age of an observation matters."""
        return self.half_life_days is not None or self.window_days is not None
