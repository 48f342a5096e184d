"""Training HRED: the run, the loop, batches, checkpoints, the finished model folder."""
