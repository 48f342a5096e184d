"""Arrays and tries in a folder: what does not fit together is refused, with its name."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import marisa_trie
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.artifacts import Artifact, arrays, open_artifact, publish
from nextquery.artifacts.arrays import check_trie_file, load_record_trie, load_trie
from nextquery.errors import ArtifactError


def stored(folder: Path, name: str, content: bytes) -> Artifact:
    with publish(folder / "out", "data", {}) as partial:
        (partial / name).write_bytes(content)
    return open_artifact(folder / "out")


@pytest.mark.parametrize(
    "values",
    [np.zeros((2, 2), np.int64), np.array(3), np.array([1.5]), np.array(["a"]), np.array([True])],
)
def test_another_shape_or_type_is_refused(tmp_path: Path, values: Any) -> None:
    np.save(tmp_path / "a.npy", values)
    artifact = stored(tmp_path, "a.npy", (tmp_path / "a.npy").read_bytes())
    with pytest.raises(ArtifactError, match=r"a\.npy"):
        arrays.load_array(artifact, "a.npy", "i")


HEADER = b"{'descr': '<i8', 'fortran_order': False, 'shape': (%s,), }"


def with_header(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no array",
        with_header(HEADER % b"-1"),
        with_header(HEADER % b"99999999999999999999"),
        with_header(HEADER % b"1000"),
        with_header(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
        with_header(b"{'descr': ("),
        with_header(b"[" * 5000),
        with_header(b"\xff" * 40),
        b"PK\x03\x04" + bytes(40),
    ],
)
def test_bytes_that_are_not_array_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ArtifactError, match=r"a\.npy"):
        arrays.load_array(stored(tmp_path, "a.npy", content), "a.npy", "i")


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (lambda a: arrays.check_length("x", a, 3), [1, 2, 3], [1, 2]),
        (lambda a: arrays.check_range("x", a, 3), [0, 2], [0, 3]),
        (lambda a: arrays.check_range("x", a, 3), [], [-1]),
        (lambda a: arrays.check_range("x", a, 3), [1], [1.0]),
        (lambda a: arrays.check_positive("x", a), [1, 2], [0]),
        (lambda a: arrays.check_positive("x", a), [0.5], [float("nan")]),
        (lambda a: arrays.check_offsets("x", a, 2, 5), [0, 2, 5], [0, 6, 5]),
        (lambda a: arrays.check_offsets("x", a, 2, 5), [0, 0, 5], [0, 2, 4]),
        (lambda a: arrays.check_offsets("x", a, 2, 5), [0, 5, 5], [1, 2, 5]),
        (lambda a: arrays.check_order("x", a, 3), [2, 0, 1], [2, 0, 0]),
    ],
)
def test_what_does_not_fit_is_named(
    check: Callable[[Any], None], good: list[float], bad: list[float]
) -> None:
    check(np.array(good, np.int64 if not good else None))
    with pytest.raises(ArtifactError, match="x"):
        check(np.array(bad))


def test_records_come_back(tmp_path: Path) -> None:
    built = marisa_trie.RecordTrie("<Q", [("ä", (255,)), ("b c", (2**40,))])
    result = load_record_trie(stored(tmp_path, "t.trie", built.tobytes()), "t.trie", "<Q", 8)
    assert result["ä"] == [(255,)]
    assert result["b c"] == [(2**40,)]


@pytest.mark.parametrize(
    "content", [b"", b"no trie", marisa_trie.BinaryTrie([b"\xff\xfe"]).tobytes()]
)
def test_a_trie_of_other_keys_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ArtifactError, match=r"out: t\.trie"):
        load_trie(stored(tmp_path, "t.trie", content), "t.trie")


@pytest.mark.parametrize("keys", [[b"no separator"], [b"text\xff1234567"], [b"\xfe\xff12345678"]])
def test_records_of_another_form_are_refused(tmp_path: Path, keys: list[bytes]) -> None:
    artifact = stored(tmp_path, "t.trie", marisa_trie.BinaryTrie(keys).tobytes())
    with pytest.raises(ArtifactError, match="not text"):
        load_record_trie(artifact, "t.trie", "<Q", 8)


@pytest.mark.slow
@given(
    st.lists(st.text(max_size=20), max_size=80),
    st.integers(1, 6),
    st.sampled_from([marisa_trie.TINY_CACHE, marisa_trie.HUGE_CACHE, marisa_trie.DEFAULT_CACHE]),
    st.sampled_from([marisa_trie.LABEL_ORDER, marisa_trie.WEIGHT_ORDER]),
)
def test_what_marisa_builds_is_sound(texts: list[str], tries: int, cache: int, order: int) -> None:
    built = marisa_trie.Trie(texts, num_tries=tries, cache_size=cache, order=order)
    check_trie_file(built.tobytes())
    records = [(text, (number,)) for number, text in enumerate(texts)]
    check_trie_file(marisa_trie.RecordTrie("<Q", records).tobytes())


@pytest.mark.parametrize("size", [63, 64, 65, 511, 512, 513, 20_000])
def test_large_tries_are_sound(size: int) -> None:
    draw = random.Random(size)
    texts = ["".join(draw.choices("abcdefgh ", k=draw.randint(1, 25))) for _ in range(size)]
    check_trie_file(marisa_trie.Trie(texts).tobytes())


def ask_everything(content: bytes, texts: list[str]) -> None:
    trie = marisa_trie.BinaryTrie()
    trie.frombytes(content)
    for text in texts:
        key = text.encode()
        trie.get(key), trie.prefixes(key + b"\0z"), trie.keys(key[:2])
    for number in range(len(trie)):
        trie.restore_key(number)
    list(trie.iterkeys())


def ends_the_process(content: bytes, texts: list[str]) -> bool:
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        try:
            ask_everything(content, texts)
        except Exception:
            os._exit(0)  # an error of Python's is none of the process
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.slow
def test_a_damaged_trie_is_refused_or_harmless() -> None:
    draw = random.Random(7)
    texts = ["".join(draw.choices("abcdefgh ä", k=draw.randint(1, 15))) for _ in range(300)]
    sound = marisa_trie.RecordTrie("<Q", [(text, (5,)) for text in texts]).tobytes()
    refused, kept, controls = 0, [], []
    for _ in range(400):
        content = bytearray(sound)
        for position in draw.sample(range(16, len(sound)), draw.choice([1, 1, 4])):
            content[position] ^= 1 << draw.randrange(8)
        try:
            check_trie_file(bytes(content))
            kept.append(bytes(content))
        except ArtifactError:
            refused += 1
            controls.append(bytes(content))
    assert refused > 200
    assert not any(ends_the_process(content, texts[:40]) for content in kept[:60])
    # Control: what is refused is dangerous.
    assert any(ends_the_process(content, texts[:40]) for content in controls)


def test_a_trie_that_unfolds_without_end_is_refused() -> None:
    """Each level's text is twice that of the level below: the top would have 2 ** 60 bytes."""
    levels = _nested(60)
    with pytest.raises(ArtifactError, match="keys without end"):
        check_trie_file(levels)
    check_trie_file(_nested(8))


def _nested(depth: int) -> bytes:
    """A chain of two linked nodes per level, both leading to the lower level's last node."""
    return b"We love Marisa.\0" + _level(depth, top=True)


def _level(depth: int, *, top: bool) -> bytes:
    last = depth == 0
    tree = [1, 0, 1, 0, 1, 0, 0, 0]
    linked = [0, 0, 0] if last else [0, 1, 1]
    parts = [
        _bits(tree, zeros=top, ones=True),
        _bits([0, 0, 1, 0], zeros=False, ones=True) if top else _no_bits(),
        _bits(linked, zeros=False, ones=False),
        _vector(bytes([0, 97, 97]) if last else bytes([0, 2, 2])),
        _vector(b"" if last else bytes(8)) + bytes(8) + (0 if last else 2).to_bytes(8, "little"),
        _vector(b"") + _no_bits(),
        b"" if last else _level(depth - 1, top=False),
        _vector(b"\xff" * 12) + (1).to_bytes(4, "little") + (0x21001).to_bytes(4, "little"),
    ]
    return b"".join(parts)


def _vector(content: bytes) -> bytes:
    return len(content).to_bytes(8, "little") + content + bytes(-len(content) % 8)


def _numbers(values: list[int]) -> bytes:
    return _vector(b"".join(value.to_bytes(4, "little") for value in values))


def _no_bits() -> bytes:
    return _vector(b"") + bytes(8) + _vector(b"") * 3


def _bits(bits: list[int], *, zeros: bool, ones: bool) -> bytes:
    unit = sum(bit << position for position, bit in enumerate(bits))
    count = sum(bits)
    low = count | count << 7 | count << 15 | count << 23
    high = count | count << 9 | count << 18
    positions = [[position for position, bit in enumerate(bits) if bit == kind] for kind in (0, 1)]
    return (
        _vector(unit.to_bytes(8, "little"))
        + len(bits).to_bytes(4, "little")
        + count.to_bytes(4, "little")
        + _numbers([0, low, high, count, 0, 0])
        + _numbers([positions[0][0], len(bits)] if zeros else [])
        + _numbers([*positions[1][:1], len(bits)] if ones else [])
    )


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 40])
def test_a_cut_off_trie_is_refused(length: int) -> None:
    with pytest.raises(ArtifactError):
        check_trie_file(marisa_trie.Trie(["a", "b"]).tobytes()[:length])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(ArtifactError, match="does not end"):
        check_trie_file(marisa_trie.Trie(["a", "b"]).tobytes() + bytes(8))
