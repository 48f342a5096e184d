"""Word vectors made elsewhere: read from a file, brought to a model's size. Knows no model.

Text files have one line per word, the word and its numbers, with a first line of counts (word2vec,
fastText) or without (GloVe); `.gz` is read, too. A safetensors file has a matrix `vectors` and the
words as the UTF-8 bytes of one text, one per line (`words`): what `save` writes. Words are matched
as queries are normalised, in lower case.
"""

import gzip
import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from nextquery.artifacts import replaced_file
from nextquery.errors import InputError
from nextquery.normalise import normalise_query
from nextquery.plain_files import check_plain_file

Floats = NDArray[np.float32]
Encoder = Callable[[Sequence[str]], object]
"""Texts to vectors, one per text: any sentence encoder."""

_SAFETENSORS = ".safetensors"
_AT_A_TIME = 256


@dataclass(frozen=True)
class WordVectors:
    """Vectors of some words: one row per word."""

    words: tuple[str, ...]
    vectors: Floats
    """(words, size)"""

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.words):
            raise InputError(
                f"word vectors: {len(self.words)} words need a matrix of so many rows, "
                f"not {self.vectors.shape}"
            )
        if not np.isfinite(self.vectors).all():
            raise InputError("word vectors: some numbers are not finite; leave those words out")

    @property
    def size(self) -> int:
        """Numbers per word."""
        return int(self.vectors.shape[1])

    def reduced(self, size: int) -> "WordVectors":
        """The vectors turned to their `size` principal components; fewer if there are no more.

        >>> line = WordVectors(("a", "b", "c"), np.array([[0, 0], [3, 4], [6, 8]], np.float32))
        >>> line.reduced(1).vectors.ravel().round().tolist()
        [-5.0, 0.0, 5.0]
        """
        centred = self.vectors.astype(np.float64) - self.vectors.mean(axis=0)
        _, directions = np.linalg.eigh(centred.T @ centred)  # by rising variance
        kept = directions[:, ::-1][:, :size]
        # The sign of a direction is free: the same on every machine.
        kept = kept * np.sign(kept[np.abs(kept).argmax(axis=0), np.arange(kept.shape[1])])
        return WordVectors(self.words, (centred @ kept).astype(np.float32))

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        with replaced_file(path, make_folders=True) as stream:
            stream.write(save({"vectors": np.ascontiguousarray(self.vectors), "words": words}))


def read_word_vectors(path: Path, wanted: Collection[str]) -> WordVectors:
    """The vectors of those words of a file that are wanted; the first of a word counts."""
    if not path.is_file():
        raise InputError(f"{path}: no such file of word vectors")
    found = _from_safetensors(path) if path.suffix == _SAFETENSORS else _from_text(path)
    rows: dict[str, Floats] = {}
    for word, numbers in found:
        word = normalise_query(word)
        if word in wanted and word not in rows:
            rows[word] = numbers()
    if not rows:
        raise InputError(f"{path}: has no vector of any word of the vocabulary")
    return WordVectors(tuple(rows), np.stack(list(rows.values())))


def encode_words(words: Sequence[str], encoder: Encoder) -> WordVectors:
    """The vectors that a sentence encoder gives to single words.

    >>> encode_words(["a", "bcd"], lambda texts: [[len(text), 1.0] for text in texts]).vectors
    array([[1., 1.],
           [3., 1.]], dtype=float32)
    """
    parts = [
        np.asarray(encoder(words[start : start + _AT_A_TIME]), dtype=np.float32)
        for start in range(0, len(words), _AT_A_TIME)
    ]
    return WordVectors(tuple(words), np.concatenate(parts))


def import_encoder(name: str) -> Encoder:
    """The function that `module:function` names.

    >>> import_encoder("builtins:sorted")(["b", "a"])
    ['a', 'b']
    """
    module, _, function = name.partition(":")
    try:
        found: Encoder = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"`encoder` {name}: {error}; it must be module:function, importable from here"
        ) from None
    return found


_Row = tuple[str, Callable[[], Floats]]
"""A word, and what reads its numbers: those of most words are never needed."""


def load_vectors(path: Path) -> WordVectors:
    """All vectors of a safetensors file that `save` wrote."""
    try:
        tensors = load_file(path)
        words = tensors["words"].tobytes().decode().split("\n")
        return WordVectors(tuple(words), tensors["vectors"].astype(np.float32))
    except (SafetensorError, OSError, KeyError, UnicodeDecodeError, InputError) as error:
        raise InputError(
            f"{path}: not a file of word vectors ({error}); it needs a matrix named vectors and, "
            "named words, the UTF-8 bytes of its words, one per line"
        ) from None


def _from_safetensors(path: Path) -> Iterator[_Row]:
    vectors = load_vectors(path)
    for place, word in enumerate(vectors.words):
        yield word, partial(vectors.vectors.__getitem__, place)


def _from_text(path: Path) -> Iterator[_Row]:
    size = 0
    with _opened(path) as lines:
        for number, line in enumerate(_readable(path, lines), start=1):
            word, *values = line.rstrip().split(" ")
            if number == 1 and len(values) == 1:
                continue  # word2vec and fastText say first how many words and numbers there are
            size = size or len(values)
            if len(values) != size or not size:
                raise InputError(
                    f"{path}, line {number}: {len(values)} numbers where the first line has "
                    f"{size}; each line is a word and its numbers, with single spaces between"
                )
            yield word, partial(_numbers, path, number, values)


def _numbers(path: Path, number: int, values: list[str]) -> Floats:
    try:
        return np.array(values, dtype=np.float32)
    except ValueError:
        raise InputError(f"{path}, line {number}: not all of its values are numbers") from None


def _opened(path: Path) -> TextIOWrapper:
    check_plain_file(path)
    if path.suffix == ".gz":
        return TextIOWrapper(gzip.open(path), encoding="utf-8")
    return path.open(encoding="utf-8")


def _readable(path: Path, lines: Iterable[str]) -> Iterator[str]:
    try:
        yield from lines
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path}: cannot be read as text ({error})") from None
