"""Experiments: scenarios, rankers, probes of what a model learnt, and the report."""
