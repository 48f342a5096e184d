"""The settings by which every count model lets old observations count less, or not at all."""

from pydantic import Field

from nextquery.config import Section


class AgingSettings(Section):
    """How the age of an observation counts: days before the last day of the background.

    >>> AgingSettings().ages, AgingSettings(window_days=30).ages
    (False, True)
    """

    half_life_days: float | None = Field(default=None, gt=0)
    """Days after which an occurrence counts half; none: all count the same."""
    window_days: int | None = Field(default=None, ge=1)
    """The last days of the background that count at all; none: every day."""

    @property
    def ages(self) -> bool:
        """Whether the age of an observation matters."""
        return self.half_life_days is not None or self.window_days is not None
