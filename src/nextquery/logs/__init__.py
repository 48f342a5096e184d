"""A raw query log becomes clean sessions, splits, a vocabulary and count tables. No torch here."""
