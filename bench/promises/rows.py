"""One row of the table of promises: what was tried, what held, and a control that must fail."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A promise put to the test.

    A promise holds when `held == tried`. `control` is what the same test is run on to show that it
    can fail (an unguarded model, an unverified load); `control_failed` counts how often it did.
    """

    area: str
    promise: str
    tried: int
    held: int
    control: str
    control_failed: int
    note: str = ""
    """What a reader should know of the figure, in a few words."""

    @property
    def kept(self) -> bool:
        """Whether the promise held each time, and the test could have seen that it did not."""
        return self.held == self.tried > 0 and self.control_failed > 0
