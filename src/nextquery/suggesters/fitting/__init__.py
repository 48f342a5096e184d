"""Fitting count models to a prepared log, apart from loading them: only here Polars is needed."""
