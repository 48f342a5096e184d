"""The stages of `prepare`, each a module: cleaning, spelling, sessions, splits, counts."""
