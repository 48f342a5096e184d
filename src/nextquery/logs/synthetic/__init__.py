"""A made-up query log with known structure."""
