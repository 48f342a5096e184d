"""How far a long experiment is: one bar on a terminal, nothing elsewhere.

Knows only texts and counts of steps.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from nextquery.ranking.scoring import Track


class Steps:
    """Shows the step that runs now and how far it is."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)
        self._title = ""

    def begin(self, title: str) -> None:
        """A new step begins."""
        self._title = title
        self._bar.reset(self._task, total=None, description=title)

    def track(self, detail: str) -> Track:
        """A function that passes on a range and counts it within the current step."""

        def count(steps: range) -> Iterator[int]:
            description = f"{self._title}: {detail}"
            self._bar.update(
                self._task, description=description, total=max(len(steps), 1), completed=0
            )
            for step in steps:
                yield step
                self._bar.advance(self._task)

        return count


@contextmanager
def show_steps() -> Iterator[Steps]:
    """Show steps on stderr, if that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as b:
        yield Steps(b)
