"""Tries of an artifact: mapped into memory once their files are known to be sound.

marisa's files cannot carry code, but a damaged one ends the process; see `trie_files.py`.
"""

from typing import Any

import marisa_trie
import numpy as np

from nextquery.artifacts.folder import Artifact
from nextquery.artifacts.trie_files import check_trie_file
from nextquery.errors import ArtifactError

_SEPARATOR = b"\xff"
"""Between a record trie's key and its record; no UTF-8 text has it."""


def load_trie(artifact: Artifact, name: str) -> Any:
    """The trie of texts `name`, mapped into memory."""
    artifact.check_once(f"trie {name}", lambda: _check(artifact, name))
    return _mapped(artifact, name, marisa_trie.Trie())


def load_record_trie(artifact: Artifact, name: str, form: str, width: int) -> Any:
    """The trie `name` of texts with a record of `width` bytes each, mapped into memory."""
    artifact.check_once(f"records {name}", lambda: _check(artifact, name, width))
    return _mapped(artifact, name, marisa_trie.RecordTrie(form, []))


def _mapped(artifact: Artifact, name: str, empty: Any) -> Any:
    try:
        return empty.mmap(str(artifact.file(name)))
    except (OSError, RuntimeError) as error:
        raise ArtifactError(f"{artifact.path / name}: altered or truncated ({error})") from None


def _check(artifact: Artifact, name: str, record: int | None = None) -> None:
    """The file is sound, every key is text, and every record has its width."""
    file = artifact.file(name)
    if not file.stat().st_size:
        raise ArtifactError(f"{name} is empty")
    try:
        check_trie_file(np.memmap(file, np.uint8, "r").data)
    except ArtifactError as error:
        raise ArtifactError(f"{name} {error}") from None
    for key in _mapped(artifact, name, marisa_trie.BinaryTrie()).iterkeys():
        if not _is_text(key, record):
            raise ArtifactError(f"{name} has a key that is no text")


def _is_text(key: bytes, record: int | None) -> bool:
    if record is not None:
        key, separator, value = key.partition(_SEPARATOR)
        if not separator or len(value) != record:
            return False
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
