"""The commands that make models and ask them."""
