"""What is said over HTTP: routes, schemas, keys, limits, pages."""
