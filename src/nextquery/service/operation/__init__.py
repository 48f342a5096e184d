"""Running the service: workers, control files, logging, metrics, feedback."""
