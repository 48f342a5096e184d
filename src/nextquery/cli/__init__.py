"""The command line: one file a command, each a thin call of the library."""
