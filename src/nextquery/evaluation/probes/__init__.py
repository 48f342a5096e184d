"""What a model has learnt: gates, boundaries, vectors, perplexities."""
