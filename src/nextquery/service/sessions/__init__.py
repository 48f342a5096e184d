"""The sessions of visitors, in memory or in Redis."""
