"""HRED: the model, its loss, its training and its files."""
