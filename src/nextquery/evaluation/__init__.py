"""Metrics, scenarios, the report and the user study."""
