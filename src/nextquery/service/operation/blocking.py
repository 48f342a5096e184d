"""Adding to the blocklist while the service runs. Models look at the file themselves."""

import os
from pathlib import Path

from nextquery.errors import InputError
from nextquery.normalise import normalise_query


def block_text(blocklist: Path, text: str) -> str:
    """Append a word or phrase to a blocklist and give it as it was written.

    Nothing else of the file changes, so that its comments and order stay; a second time does no
    harm. Texts of which nothing remains when they are normalised are refused.
    """
    entry = normalise_query(text)
    if not entry:
        raise InputError("text: has no letter or digit that could be blocked")
    with blocklist.open("rb+") as stream:
        if stream.seek(0, os.SEEK_END):
            stream.seek(-1, os.SEEK_END)
            whole = stream.read(1) == b"\n"
        else:
            whole = True
        # One write: a model that reads the file now sees the entry or does not.
        stream.write(("" if whole else "\n").encode() + f"{entry}\n".encode())
    return entry
