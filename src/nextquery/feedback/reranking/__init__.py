"""A model that orders another's suggestions by what visitors took."""
