"""Which engine suits a log: Polars while its tables fit in memory, DuckDB beyond."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nextquery.logs.reading.compression import LogFile

AUTO = "auto"
_LOOK = 4 << 20
_BYTES_PER_BYTE = 2.4
_AT_LEAST = 400 << 20
"""What Polars was seen to take: 0.9 GB for a log of 254 MB, 5.6 GB for one of 2.5 GB."""
_SHARE = 0.7
"""Of the free memory, so much may be filled."""
_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class EngineChoice:
    """An engine's name, and why it was chosen."""

    name: str
    reason: str


def choose_engine(logs: Sequence[Path], free: int | None = None) -> EngineChoice:
    """Polars or DuckDB for these files, by their size and the free memory (in bytes)."""
    size = sum(map(unpacked_size, logs))
    memory = free_memory() if free is None else free
    needed = int(size * _BYTES_PER_BYTE) + _AT_LEAST
    fits = needed <= memory * _SHARE
    return EngineChoice(
        "polars" if fits else "duckdb",
        f"the log has about {size / 1e6:,.0f} MB, for which Polars needs about "
        f"{needed / 1e9:.1f} GB of {memory / 1e9:.1f} GB free",
    )


def unpacked_size(path: Path) -> int:
    """About how many bytes a file has when it is unpacked, by its first few megabytes."""
    with LogFile(path) as file:
        start = len(next(file.chunks(_LOOK), b""))
        read = file.position()
    size = path.stat().st_size
    return size if file.compression is None or not read else size * start // read


def free_memory() -> int:
    """The memory that the process may still take, in bytes."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    memory = Path("/proc/meminfo")
    if memory.exists():
        fields = dict(line.split(":") for line in memory.read_text().splitlines())
        if "MemAvailable" in fields:
            found.append(int(fields["MemAvailable"].split()[0]) * 1024)
    if _MEMORY_LIMIT.exists() and (limit := _MEMORY_LIMIT.read_text().strip()).isdigit():
        found.append(int(limit))
    return min(found)
