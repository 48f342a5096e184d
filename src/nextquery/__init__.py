"""nextquery: query suggestions learnt from a site's own query log."""

__version__ = "0.1.0"
