"""The command line: one module per group of commands, each a thin call of the library."""
