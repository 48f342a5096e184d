"""Suggestions for engines and pages that run no Python."""
