"""Table engines for Narwhals expressions: Polars in memory, DuckDB on disk, Spark on a cluster.

An engine is imported when it is opened, as two of them are extras.
"""

from pathlib import Path

from nextquery.errors import InputError, require
from nextquery.logs.engines.base import Engine

ENGINES = ("polars", "duckdb", "spark")


def open_engine(name: str, work: Path, spark_master: str = "local[*]") -> Engine:
    """The engine called `name`, with a folder for its intermediate files."""
    if name == "polars":
        from nextquery.logs.engines.polars import PolarsEngine

        return PolarsEngine()
    if name == "duckdb":
        require("duckdb")
        from nextquery.logs.engines.relational import DuckdbEngine

        return DuckdbEngine(work)
    if name == "spark":
        require("spark")
        from nextquery.logs.engines.spark import SparkEngine

        return SparkEngine(work, spark_master)
    raise InputError(f"`engine` {name}: not one of {', '.join(ENGINES)}")
