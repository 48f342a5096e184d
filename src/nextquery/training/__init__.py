"""Training HRED: the run, the loop, batches, checkpoints, the finished model folder."""

REPLAY = 1.0
"""Older sessions of an epoch of continued training, as a multiple of the new ones."""
