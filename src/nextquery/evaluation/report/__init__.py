"""The report of an experiment: page, tables, plots."""
