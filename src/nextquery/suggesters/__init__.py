"""One protocol, several ways to suggest the next query."""
