"""A writer that replaces a model again and again, for readers to load meanwhile.

    python swapping.py TARGET ONE OTHER

Publishes copies of ONE and OTHER at TARGET by turns until it is ended.
"""

import shutil
import sys
from itertools import cycle
from pathlib import Path

from nextquery.artifacts import further_entries, open_artifact, publish


def main(target: Path, sources: list[Path]) -> None:
    """Replace until the process is ended."""
    for source in cycle(sources):
        artifact = open_artifact(source)
        with publish(target, artifact.kind, further_entries(artifact.manifest)) as folder:
            shutil.copytree(source, folder, dirs_exist_ok=True)
        print(source.name, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
