"""Compiled kernels for nextquery: the decoding steps of its networks as a small shared library.

`nextquery` finds this package by itself and computes with NumPy where it is missing.
"""

from pathlib import Path

LIBRARY = "libnextquery_native.so"


def library_path() -> str:
    """The shared library that belongs to this installation."""
    return str(Path(__file__).with_name(LIBRARY))
