"""A synthetic query log with known structure."""
