"""Keyed fingerprints of words, pairs of words and queries, and a filter over them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

_BITS_A_MEMBER = 16
_EMPTY_BITS = 64
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SALTS = tuple(map(int, _MIX))
_ALL_BITS = (1 << 64) - 1


def text_keys(texts: Iterable[str], secret: bytes) -> Keys:
    """A 64-bit keyed hash of each text."""
    digests = (hashlib.blake2b(text.encode(), digest_size=8, key=secret).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


def pair_keys(first: Keys, second: Keys) -> Keys:
    """The keys of ordered pairs, elementwise with broadcasting, from the keys of their parts."""
    return _scramble(_scramble(first) * _ODD + second)


def text_key(text: str, secret: bytes) -> int:
    """What `text_keys` gives for one text: arrays of one number take five times as long."""
    return int.from_bytes(
        hashlib.blake2b(text.encode(), digest_size=8, key=secret).digest(), "little"
    )


def pair_key(first: int, second: int) -> int:
    """What `pair_keys` gives for one pair."""
    return _scrambled((_scrambled(first) * int(_ODD) + second) & _ALL_BITS)


class RareSet:
    """A Bloom filter over 64-bit keys with two probes and 16 bits a member."""

    def __init__(self, bits: NDArray[np.uint8]) -> None:
        self.bits = bits

    @classmethod
    def build(cls, keys: Keys) -> RareSet:
        """A filter that holds `keys`."""
        size = _EMPTY_BITS + len(keys) * _BITS_A_MEMBER
        bits = np.zeros((size + 7) // 8, dtype=np.uint8)
        for byte, bit in _probes(keys, len(bits)):
            np.bitwise_or.at(bits, byte, bit)
        return cls(bits)

    def is_valid(self) -> bool:
        """Whether it has the bytes of a filter: at least those of an empty one."""
        return self.bits.dtype == np.uint8 and len(self.bits) >= _EMPTY_BITS // 8

    def has(self, key: int) -> bool:
        """What `contains` says of one key."""
        size = len(self.bits) * 8
        places = (_scrambled(key ^ salt) % size for salt in _SALTS)
        return all(self.bits[position >> 3] >> (position & 7) & 1 for position in places)

    def contains(self, keys: Keys) -> NDArray[np.bool_]:
        """Whether each key is a member (never wrong on members)."""
        contained = np.ones(keys.shape, dtype=np.bool_)
        for byte, bit in _probes(keys, len(self.bits)):
            contained &= (self.bits[byte] & bit) != 0
        return contained


def in_sorted(keys: Keys, ordered: Keys) -> NDArray[np.bool_]:
    """Whether each of `keys` is in the sorted array `ordered`."""
    if len(ordered) == 0:
        return np.zeros(keys.shape, dtype=np.bool_)
    index = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.asarray(ordered[index] == keys)


def _probes(keys: Keys, size: int) -> list[tuple[NDArray[np.intp], NDArray[np.uint8]]]:
    """The (byte, bit) places of each key, one pair of arrays a probe."""
    probes = []
    for salt in _MIX:
        position = _scramble(keys ^ salt) % np.uint64(size * 8)
        bit = np.left_shift(np.uint8(1), (position & np.uint64(7)).astype(np.uint8))
        probes.append(((position >> np.uint64(3)).astype(np.intp), bit))
    return probes


def _scramble(keys: Keys) -> Keys:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    keys = (keys ^ (keys >> np.uint64(30))) * _MIX[0]
    keys = (keys ^ (keys >> np.uint64(27))) * _MIX[1]
    return keys ^ (keys >> np.uint64(31))


def _scrambled(key: int) -> int:
    """What `_scramble` makes of one key."""
    key = ((key ^ key >> 30) * _SALTS[0]) & _ALL_BITS
    key = ((key ^ key >> 27) * _SALTS[1]) & _ALL_BITS
    return key ^ key >> 31
