"""The models of a running service: queues, batches, processes."""
