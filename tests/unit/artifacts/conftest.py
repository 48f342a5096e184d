"""What is in a folder."""

from pathlib import Path


def names(folder: Path) -> list[str]:
    """The names of a folder's files and folders, in order."""
    return sorted(path.name for path in folder.iterdir())
