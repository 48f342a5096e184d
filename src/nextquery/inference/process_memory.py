"""Memory settings of the process, for entry points only: the library never calls them.

- A command that decodes much: every decoding step frees tens of megabytes and asks for them again.
  glibc gives blocks of that size back to the system at once, and getting them anew costs a page
  fault per 4 KB: 12 to 20% of the time of a suggestion at the paper's size.
- A process that serves: what only starting up needed is given back once.

Elsewhere than on Linux and glibc neither does anything. Imports no torch.
"""

import ctypes
import mmap
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MADV_DONTNEED = 4
_MADV_PAGEOUT = 21
_CODE = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9]\d* +/.*\n((?:\w+:.*\n)+)", re.MULTILINE
)
_LARGEST_BLOCK = 32 << 20
_KEPT = 128 << 20


@cache
def keep_freed_memory() -> bool:
    """Have the allocator keep up to 128 MB of what is freed; whether it could be told."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    kept = mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK) and mallopt(_M_TRIM_THRESHOLD, _KEPT)
    return bool(kept)


def give_back() -> None:
    """Return what starting up and packing used and serving does not: freed memory, and code.

    Importing PyTorch runs 60 MB of its code that is not run again. Pages of code are those of
    files that cannot be written to and hold nothing of this process: what is needed of them comes
    back from the system's own copy at the next call, in microseconds.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        mappings = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    except (OSError, AttributeError):
        return
    for start, stop in _unwritten_code(mappings):
        advise(start, stop - start, _MADV_DONTNEED)


def _unwritten_code(mappings: str) -> Iterator[tuple[int, int]]:
    """The address ranges of `/proc/self/smaps` that hold a file's code and nothing else."""
    for mapping in _CODE.finditer(mappings):
        if "\nAnonymous:             0 kB\n" in mapping[3]:
            yield int(mapping[1], 16), int(mapping[2], 16)


def page_out(array: NDArray[Any]) -> bool:
    """Let the system take an array's pages back; those of a mapped file return when read.

    For matrices that were packed and are seldom read after. Linux only; no data is ever lost.
    """
    start = int(array.__array_interface__["data"][0])
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (start + array.nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    return size > 0 and advise(first, size, _MADV_PAGEOUT)


def advise(first: int, size: int, advice: int) -> bool:
    """Tell the system what to do with `size` bytes from `first` on; whether it took the advice."""
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return False
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return bool(madvise(first, size, advice) == 0)
