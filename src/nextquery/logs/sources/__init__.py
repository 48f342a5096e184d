"""Logs that lie elsewhere than in files: they are fetched into files first."""
