"""What a model may give away, and what strangers can make it say: planted queries, measured."""
