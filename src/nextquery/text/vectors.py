"""Word vectors from a file or an encoder, character n-grams, and similarity by trigrams."""

import gzip
import hashlib
import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from nextquery.artifacts import replaced_file, sha256
from nextquery.artifacts.files import check_plain_file
from nextquery.errors import InputError
from nextquery.normalise import normalise_query
from nextquery.text.vocabulary import SPECIAL

SHORTEST, LONGEST = 3, 5
MOST_CHARACTERS = 40

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


def running(counts: Ints) -> Ints:
    """0, 1, ..., n - 1 for each n of `counts`, one after the other.

    >>> running(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def ngrams(word: str) -> list[str]:
    """The character n-grams of a word; one that occurs twice counts twice.

    >>> ngrams("red")
    ['<re', 'red', 'ed>', '<red', 'red>', '<red>']
    """
    if word in SPECIAL:
        return []
    text = f"<{word[:MOST_CHARACTERS]}>"
    return [
        text[start : start + size]
        for size in range(SHORTEST, LONGEST + 1)
        for start in range(len(text) - size + 1)
    ]


def bucket(ngram: str, buckets: int) -> int:
    """The bucket of an n-gram.

    >>> bucket("<re", 1000), bucket("ed>", 1000)
    (141, 689)
    """
    return crc32(ngram.encode()) % buckets


@dataclass(frozen=True, eq=False)
class NgramTable:
    """The buckets of the n-grams of many words, one word after the other."""

    buckets: Ints
    """(total,): those of the first word, then those of the second, ..."""
    starts: Ints
    """(words + 1,): where those of each word begin."""

    @classmethod
    def of(cls, words: Iterable[str], buckets: int) -> "NgramTable":
        """The table of these words.

        >>> table = NgramTable.of(["red", "<eoq>"], 1000)
        >>> len(table), table.starts.tolist()
        (2, [0, 6, 6])
        """
        word_buckets = [[bucket(ngram, buckets) for ngram in ngrams(word)] for word in words]
        flat = [number for numbers in word_buckets for number in numbers]
        ends = np.cumsum([0, *map(len, word_buckets)], dtype=np.int64)
        return cls(np.array(flat, dtype=np.int64), ends)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: Ints) -> "NgramTable":
        """The table of some of the words, in the given order."""
        counts = np.diff(self.starts)[rows]
        positions = np.repeat(self.starts[rows], counts) + running(counts)
        ends = np.cumsum([0, *counts.tolist()], dtype=np.int64)
        return NgramTable(self.buckets[positions], ends)

    def joined(self, more: "NgramTable") -> "NgramTable":
        """The table of these words, followed by others."""
        return NgramTable(
            np.concatenate([self.buckets, more.buckets]),
            np.concatenate([self.starts, self.starts[-1] + more.starts[1:]]),
        )

    def means(self, vectors: Floats) -> Floats:
        """The mean of each word's n-gram vectors (words, d), zero for a word without any.

        >>> table = NgramTable(np.array([0, 1, 1]), np.array([0, 2, 2, 3]))
        >>> table.means(np.array([[2.0], [4.0]], np.float32)).tolist()
        [[3.0], [0.0], [4.0]]
        """
        counts = np.diff(self.starts)
        means = np.zeros((len(self), vectors.shape[1]), dtype=np.float32)
        has_ngrams = counts > 0  # reduceat gives a row to nothing, too
        if has_ngrams.any():
            sums = np.add.reduceat(vectors[self.buckets], self.starts[:-1][has_ngrams], axis=0)
            means[has_ngrams] = sums / counts[has_ngrams, None].astype(np.float32)
        return means


Encoder = Callable[[Sequence[str]], object]
"""Texts to vectors, one per text: any sentence encoder."""

_AT_A_TIME = 256
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?", re.IGNORECASE)
_NUMBER_AFTER_WORD = re.compile(rf" {_NUMBER.pattern}(?: |$)", re.IGNORECASE)
"""A line with more numbers than the others, not a word with spaces."""
_HEADER = re.compile(r"[0-9]+ ([0-9]{1,9})")
"""word2vec and fastText say first how many words and numbers per word there are."""


@dataclass(frozen=True)
class WordVectors:
    """Vectors of some words: one row per word."""

    words: tuple[str, ...]
    vectors: Floats
    """(words, size)"""

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.words):
            raise InputError(
                f"word vectors: {len(self.words)} words need a matrix of that many rows, "
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
        components = directions[:, ::-1][:, :size]
        # The sign of a direction is free: the same on every machine.
        components = components * np.sign(
            components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])]
        )
        return WordVectors(self.words, (centred @ components).astype(np.float32))

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        with replaced_file(path, make_folders=True) as stream:
            stream.write(save({"vectors": np.ascontiguousarray(self.vectors), "words": words}))


def read_word_vectors(path: Path, words: Collection[str]) -> WordVectors:
    """The vectors of those words of a file that are wanted; the first of a word counts."""
    if not path.is_file():
        raise InputError(f"{path}: no such file of word vectors")
    vectors = _from_safetensors(path) if path.suffix == ".safetensors" else _from_text(path)
    rows: dict[str, Floats] = {}
    for word, numbers in vectors:
        word = normalise_query(word)
        if word in words and word not in rows:
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
    """The function that `module:function` names; what it gives is checked whenever it is called.

    >>> import_encoder("builtins:sorted")(["b", "a"])
    Traceback (most recent call last):
        ...
    nextquery.errors.InputError: `encoder` builtins:sorted: gives no numbers (could not convert \
string to float: 'a'); it must give one vector per text
    """
    module, _, function = name.partition(":")
    try:
        encoder: Encoder = getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:  # a module may raise anything while it is imported
        raise InputError(
            f"`encoder` {name}: {_described(error)}; it must be module:function, importable from "
            "here"
        ) from None
    if not callable(encoder):
        raise InputError(f"`encoder` {name}: not a function, but a {type(encoder).__name__}")
    return _Checked(name, encoder)


class _Checked:
    """An encoder whose faults are errors of the user's input."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        self._name = name
        self._encoder = encoder
        self._size: int | None = None

    def __call__(self, texts: Sequence[str]) -> Floats:
        try:
            given = self._encoder(texts)
        except Exception as error:
            raise self._fault(f"failed ({_described(error)})") from error
        try:
            with np.errstate(over="ignore"):  # found below
                vectors = np.asarray(given, dtype=np.float32)
        except (ValueError, TypeError, RuntimeError) as error:
            raise self._fault(f"gives no numbers ({error})") from None
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
            raise self._fault(f"gives {vectors.shape} for {len(texts)} texts")
        if self._size not in (None, vectors.shape[1]):
            raise self._fault(f"gives vectors of {self._size} and of {vectors.shape[1]} numbers")
        if not np.isfinite(vectors).all():
            raise self._fault("gives numbers that are not finite")
        self._size = vectors.shape[1]
        return vectors

    def _fault(self, problem: str) -> InputError:
        return InputError(f"`encoder` {self._name}: {problem}; it must give one vector per text")


def _described(error: BaseException) -> str:
    text = str(error)
    plain = isinstance(error, ImportError | AttributeError | ValueError) and text
    return text if plain else f"{type(error).__name__}: {text}"


def encoder_identity(name: str, encoder: Encoder, texts: Sequence[str]) -> list[str]:
    """What an encoder is recognised by: its module's file, and its vectors of some texts."""
    file = getattr(importlib.import_module(name.partition(":")[0]), "__file__", None)
    source = sha256(Path(file)) if file and Path(file).is_file() else ""
    vectors = np.asarray(encoder(texts), dtype=np.float64).round(3) + 0.0  # no negative zeros
    return [source, hashlib.sha256(vectors.tobytes()).hexdigest()]


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
    for index, word in enumerate(vectors.words):
        yield word, partial(vectors.vectors.__getitem__, index)


def _from_text(path: Path) -> Iterator[_Row]:
    size = 0
    for number, line in enumerate(_lines(path), start=1):
        line = line.rstrip()
        if number == 1 and (header := _HEADER.fullmatch(line)):
            size = int(header[1])
            continue
        size = size or _numbers_at_the_end(line)
        word, *values = line.rsplit(" ", size)  # GloVe has words with spaces
        if len(values) != size or not size or _NUMBER_AFTER_WORD.search(word):
            raise InputError(
                f"{path}, line {number}: {line.count(' ')} numbers where the first line has "
                f"{size}; each line is a word and its numbers, with single spaces between"
            )
        yield word, partial(_numbers, path, number, values)


def _numbers_at_the_end(line: str) -> int:
    """How many numbers are after a word; all values if the last is none, which is refused later.

    >>> _numbers_at_the_end("new york 0.5 -1e-3"), _numbers_at_the_end("rome 1 two")
    (2, 2)
    """
    values = line.split(" ")[1:]
    numbers = list(takewhile(_NUMBER.fullmatch, reversed(values)))
    return len(numbers) or len(values)


def _numbers(path: Path, number: int, values: list[str]) -> Floats:
    try:
        return np.array(values, dtype=np.float32)
    except ValueError:
        raise InputError(f"{path}, line {number}: not all of its values are numbers") from None


def _lines(path: Path) -> Iterator[str]:
    check_plain_file(path)
    unpack = gzip.open if path.suffix == ".gz" else open
    try:
        with unpack(path, "rt", encoding="utf-8") as lines:
            yield from lines
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path}: cannot be read as text ({error})") from None


def trigrams(text: str) -> Counter[str]:
    """The runs of three characters of a text with a space before and after it, with their counts.

    >>> sorted(trigrams("cars"))
    [' ca', 'ars', 'car', 'rs ']
    """
    padded = f" {text} "
    return Counter(padded[start : start + 3] for start in range(len(padded) - 2))


def word_trigrams(text: str) -> Counter[str]:
    """The trigrams of the single words of a text.

    >>> sorted(word_trigrams("a car"))
    [' a ', ' ca', 'ar ', 'car']
    """
    counts: Counter[str] = Counter()
    for word in text.split():
        counts.update(trigrams(word))
    return counts


def letter_trigrams(text: str) -> frozenset[str]:
    """The different runs of three characters of a text; its characters if it is shorter.

    >>> sorted(letter_trigrams("cars"))
    ['ars', 'car']
    """
    runs = (text[start : start + 3] for start in range(len(text) - 2))
    return frozenset(runs) if len(text) >= 3 else frozenset(text)


def cosine(left: Mapping[str, int], right: Mapping[str, int]) -> float:
    """The cosine of two tables of counts; 0 where one is empty.

    >>> round(cosine(trigrams("car"), trigrams("cars")), 3)
    0.577
    """
    shared = sum(count * right.get(part, 0) for part, count in left.items())
    lengths = math.sqrt(sum(n * n for n in left.values()) * sum(n * n for n in right.values()))
    return shared / lengths if lengths else 0.0
