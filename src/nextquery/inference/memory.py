"""Keeping freed memory for the next step.

Every decoding step frees tens of megabytes and asks for them again. glibc gives blocks of that size
back to the system at once, and getting them anew costs a page fault per 4 KB: 12 to 20% of the time
of a suggestion at the paper's size. Elsewhere than on glibc this does nothing.
"""

import ctypes
from functools import cache

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_BLOCK = 32 << 20
_KEPT = 128 << 20

MOST_LOGITS = 7 << 20
"""Scores over the vocabulary that are held at one time: 28 MB, within the largest block."""


@cache
def keep_freed_memory() -> bool:
    """Have the allocator keep up to 128 MB of what is freed; whether it could be told."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    kept = mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK) and mallopt(_M_TRIM_THRESHOLD, _KEPT)
    return bool(kept)
