"""Table engines behind Narwhals: Polars in memory, DuckDB on disk, Spark on a cluster."""
