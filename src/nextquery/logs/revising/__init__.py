"""Data folders changed without the raw log: a person forgotten, days added, old ones let go."""
