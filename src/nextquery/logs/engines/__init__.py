"""Table engines for Narwhals expressions: Polars in memory, DuckDB on disk, Spark on a cluster."""
