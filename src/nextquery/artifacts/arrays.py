"""Arrays and tries of an artifact: memory-mapped and checked before use."""

import mmap
import re
from typing import Any, NamedTuple

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from nextquery.artifacts.folder import Artifact
from nextquery.errors import ArtifactError

Numbers = NDArray[Any]
_LONGEST_HEADER = 1 << 12
_HEADER = re.compile(
    rb"\x93NUMPY(?:\x01.|[\x02\x03]...)..{'descr': '(?P<type>[<>|](?P<kind>[iuf])[1248])', "
    rb"'fortran_order': (?:False|True), 'shape': \((?P<length>\d{1,18}),\), } *\n",
    re.DOTALL,
)
"""What `numpy.save` writes before the values of an array of one dimension. NumPy's own reader
takes the header for a Python expression, in which there is more to go wrong."""


def load_array(artifact: Artifact, name: str, kinds: str = "iuf") -> Numbers:
    """The array `name` of one dimension, mapped into memory and read only when it is used.

    `kinds` are the letters of NumPy's `dtype.kind` that may be in it.
    """
    with artifact.open(name) as stream:
        header = _HEADER.match(stream.read(_LONGEST_HEADER))
        size = stream.seek(0, 2)
        content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    if header is None or header["kind"].decode() not in kinds:
        raise ArtifactError(f"{artifact.path / name}: not an array of the kind needed here")
    values, length, offset = np.dtype(header["type"].decode()), int(header["length"]), header.end()
    if size - offset != length * values.itemsize:
        raise ArtifactError(f"{artifact.path / name}: altered or truncated")
    # A plain array over mapped pages: indexing a `memmap` object costs several times more.
    return np.frombuffer(content, values, length, offset) if length else np.empty(0, values)


def check_length(name: str, values: Numbers, length: int) -> None:
    """There must be exactly `length` values.

    >>> check_length("counts", np.array([1, 2]), 2)
    """
    require(len(values) == length, f"{name} has {len(values)} values, not {length}")


def check_range(name: str, values: Numbers, size: int) -> None:
    """Every value must be a whole number from 0 to `size - 1`."""
    is_integer = values.dtype.kind in "iu"
    inside = is_integer and (not len(values) or (values.min() >= 0 and values.max() < size))
    require(bool(inside), f"{name} has a value that is not a number below {size}")


def check_positive(name: str, values: Numbers) -> None:
    """Every value must be finite and above 0."""
    require(bool(np.isfinite(values).all() and (values > 0).all()), f"{name} has a value below 1")


def check_offsets(name: str, offsets: Numbers, rows: int, length: int) -> None:
    """Row `r` is `offsets[r]:offsets[r + 1]` of `length` values; the rows must share them all."""
    check_length(name, offsets, rows + 1)
    require(offsets.dtype.kind in "iu", f"{name} are not whole numbers")
    divides = offsets[0] == 0 and offsets[-1] == length and (offsets[1:] >= offsets[:-1]).all()
    require(bool(divides), f"{name} do not divide {length} values into rows")


def check_order(name: str, order: Numbers, size: int) -> None:
    """The values must be 0 to `size - 1`, each once."""
    check_length(name, order, size)
    check_range(name, order, size)
    require(bool(np.bincount(order, minlength=size).max(initial=0) <= 1), f"{name} repeats one")


def require(condition: bool, problem: str) -> None:
    """Refuse contents that do not fit together."""
    if not condition:
        raise ArtifactError(problem)


_TRIE_HEADER = b"We love Marisa.\0"
_DEEPEST = 127
_LONGEST_KEY = 1 << 20
_NOTHING = 0xFFFFFFFF
_NO_LINK = 0xFFFFFF
_BLOCK = 512
"""Bits between two entries of an index."""


def check_trie_file(content: bytes | memoryview) -> None:
    """Raise `ArtifactError` unless every lookup in the trie stays inside it and ends."""
    reader = _Reader(content)
    require(bytes(content[: len(_TRIE_HEADER)]) == _TRIE_HEADER, "does not begin as a trie")
    _read_tree(reader, level=1)
    require(reader.position == len(content), "does not end where its trie ends")


class _Bits(NamedTuple):
    size: int
    ones: Numbers
    """The positions of the bits that are set."""


class _Reader:
    """Takes the parts of the file one after another."""

    def __init__(self, content: bytes | memoryview) -> None:
        self._content = content
        self.position = len(_TRIE_HEADER)

    def number(self, width: int) -> int:
        content = bytes(self._content[self.position : self.position + width])
        require(len(content) == width, "is cut off")
        self.position += width
        return int.from_bytes(content, "little")

    def numbers(self, kind: str) -> Numbers:
        """A vector: its length in bytes, its items, and what fills it up to eight bytes."""
        length, width = self.number(8), np.dtype(kind).itemsize
        require(length <= len(self._content) - self.position, "is cut off")
        require(length % width == 0, "has a vector of broken items")
        numbers = np.frombuffer(self._content, kind, length // width, self.position)
        self.position += length + -length % 8
        return numbers

    def bits(self, *, ranks: bool, zeros: bool, ones: bool) -> _Bits:
        """A vector of bits; each index must be there as asked for, and right."""
        units, size, count = self.numbers("<u8"), self.number(4), self.number(4)
        rank_index, zero_index, one_index = (self.numbers("<u4") for _ in range(3))
        require(len(units) == -(-size // 64), "has bits of another length than it says")
        values = np.unpackbits(units.view(np.uint8), bitorder="little")
        ones_set = np.flatnonzero(values)
        require(len(ones_set) == count, "miscounts its bits")
        require(not count or int(ones_set[-1]) < size, "has bits after its last one")
        empty = np.empty(0, np.uint32)
        expected_zeros = np.flatnonzero(values[:size] == 0) if zeros else empty
        for index, expected in (
            (rank_index, _rank_index(values, size) if ranks else empty),
            (zero_index, np.append(expected_zeros[::_BLOCK], size) if zeros else empty),
            (one_index, np.append(ones_set[::_BLOCK], size) if ones else empty),
        ):
            require(np.array_equal(index, expected), "has an index that does not fit its bits")
        return _Bits(size, ones_set)

    def packed(self) -> Numbers:
        """Numbers of some bits each, packed without gaps."""
        units = self.numbers("<u8")
        width, mask, size = self.number(4), self.number(4), self.number(8)
        require(width <= 32 and mask == (1 << width) - 1, "has packed numbers of no width")
        needed = -(-size * width // 64) if width else min(size, 1)
        require(size <= len(self._content) * 8 and len(units) == needed, "has too few numbers")
        if not width or not size:
            return np.zeros(size, np.uint64)
        bit_offsets = np.arange(size, dtype=np.uint64) * np.uint64(width)
        first, shift = bit_offsets >> np.uint64(6), bit_offsets & np.uint64(63)
        low = units[first] >> shift
        follows = np.minimum(first + np.uint64(1), np.uint64(len(units) - 1))
        high = np.where(shift, units[follows] << (np.uint64(64) - np.maximum(shift, 1)), 0)
        return np.asarray((low | high) & np.uint64(mask))


def _rank_index(values: Numbers, size: int) -> Numbers:
    """Three numbers per 512 bits: the bits set before, and in 1 to 7 of the eight parts."""
    if not size:
        return np.empty(0, np.uint32)
    blocks = -(-size // _BLOCK)
    parts = np.zeros(blocks * 8, np.uint64)
    counted = values.reshape(-1, 64).sum(axis=1)
    parts[: len(counted)] = counted
    within = parts.reshape(blocks, 8).cumsum(axis=1)
    index = np.zeros((blocks + 1, 3), np.uint64)
    index[1:, 0] = within[:, 7].cumsum()
    places = [(1, 0), (1, 7), (1, 15), (1, 23), (2, 0), (2, 9), (2, 18)]
    for part, (column, shift) in enumerate(places):
        index[:-1, column] |= within[:, part] << np.uint64(shift)
    return index.ravel()


def _read_tree(reader: _Reader, level: int) -> Numbers:
    """Read and check one tree and those below it; returns the length of each node's text."""
    require(level <= _DEEPEST, "is nested too deeply")
    top = level == 1
    tree = reader.bits(ranks=True, zeros=top, ones=True)
    ends = reader.bits(ranks=top, zeros=False, ones=top)
    linked = reader.bits(ranks=True, zeros=False, ones=False)
    bytes_, extras = reader.numbers("u1"), reader.packed()
    parents = _parents(tree)
    nodes = len(parents)
    require(linked.size == len(bytes_) == nodes, "has labels for other nodes than it has")
    require(ends.size == (nodes + 1 if top else 0), "has ends for other nodes than it has")
    require(not len(ends.ones) or ends.ones[-1] < nodes, "has an end after its last node")
    require(len(extras) == len(linked.ones), "has links for other nodes than it has")
    links = bytes_[linked.ones] | extras.astype(np.int64) << 8
    lengths = np.ones(nodes, np.int64)
    lengths[linked.ones] = _linked_lengths(reader, links, level)
    _check_cache(reader.numbers("<u4"), parents, bytes_, linked.ones, links)
    first_level = int((parents[1:] == 0).sum())
    require(reader.number(4) == first_level, "miscounts the first level")
    reader.number(4)  # how it was built: no lookup asks for it
    return _path_lengths(parents, lengths)


def _parents(tree: _Bits) -> Numbers:
    """The parent of each node, which always comes before it; the root is its own."""
    nodes = len(tree.ones)
    require(nodes >= 1 and tree.size == 2 * nodes + 2, "has a tree that is none")
    parents = tree.ones - np.arange(nodes) - 1
    require(int(tree.ones[0]) == 0 and int(tree.ones[-1]) < tree.size - 2, "has no root")
    parents[0] = 0
    later = parents[1:]
    require(bool(((later >= 0) & (later < np.arange(1, nodes))).all()), "has a tree with a loop")
    return parents


def _linked_lengths(reader: _Reader, links: Numbers, level: int) -> Numbers:
    """The length of the text that each link stands for."""
    endings = reader.numbers("u1")
    last = reader.bits(ranks=False, zeros=False, ones=False)
    if len(links) and not len(endings):
        lengths = _read_tree(reader, level + 1)
        require(bool(((links > 0) & (links < len(lengths))).all()), "has a link to no node")
        return lengths[links]
    if not len(links):
        return np.empty(0, np.int64)
    require(int(links.max()) < len(endings), "has a link after its endings")
    if last.size:
        stops = last.ones
        require(last.size == len(endings), "has marks for other endings than it has")
    else:
        stops = np.flatnonzero(endings == 0) - 1
        require(bool(endings[links].all()), "has a link to an empty ending")
    require(len(stops) > 0 and int(stops[-1]) >= int(links.max()), "has an ending without an end")
    return np.asarray(stops[np.searchsorted(stops, links)] - links + 1)


def _check_cache(
    cached: Numbers, parents: Numbers, bytes_: Numbers, linked: Numbers, links: Numbers
) -> None:
    """Each cached step must be a step of the tree with its own label."""
    require(len(cached) > 0 and len(cached) % 3 == 0, "has a broken cache")
    size = len(cached) // 3
    require(size & (size - 1) == 0, "has a cache of an odd size")
    rows = cached.reshape(-1, 3).astype(np.int64)
    unused = (rows[:, 0] == _NOTHING) & (rows[:, 1] == _NOTHING)
    parent, child, label = rows[~unused].T
    inside = bool(((child > 0) & (child < len(parents))).all())
    require(inside and np.array_equal(parents[child], parent), "has cached steps of no tree")
    expected = bytes_.astype(np.int64) | _NO_LINK << 8
    expected[linked] = links
    require(np.array_equal(expected[child], label), "has cached labels of other nodes")


def _path_lengths(parents: Numbers, lengths: Numbers) -> Numbers:
    """The length of the text from the root to each node, by doubling the steps looked back."""
    total_lengths, back = lengths.copy(), parents.copy()
    total_lengths[0] = 0
    while back.any():
        total_lengths = np.minimum(total_lengths + total_lengths[back], _LONGEST_KEY + 1)
        back = back[back]
    require(int(total_lengths.max()) <= _LONGEST_KEY, "has keys without end")
    return total_lengths


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
        is_sound = True
        if record is not None:
            key, separator, value = key.partition(_SEPARATOR)
            is_sound = bool(separator) and len(value) == record
        try:
            key.decode()
        except UnicodeDecodeError:
            is_sound = False
        if not is_sound:
            raise ArtifactError(f"{name} has a key that is not text")
