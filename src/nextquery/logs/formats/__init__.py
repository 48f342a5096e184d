"""The formats of raw logs."""
