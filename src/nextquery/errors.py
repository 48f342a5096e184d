"""The exception tree: every error that a user can cause, and nothing else.

    NextqueryError
    ├── InputError            a file, row or value that the user gave is wrong
    │   ├── LogError          a raw log cannot be read or has too many bad rows
    │   ├── ConfigError       an unknown or invalid configuration key
    │   └── BlocklistError    a blocklist is missing, empty or unreadable
    ├── ArtifactError         a data, model or report folder is not what it should be
    │   └── ChecksumError     a file in it was altered or truncated
    ├── TrainingError         training cannot continue (a loss that is not finite, ...)
    └── MissingDependencyError  an optional extra is not installed

A message says what is wrong, where, and what to do. A setting is written in backquotes,
under its name in the settings class (`min_users`); the command line turns it into its option,
prints the message on one line and exits with the class's `exit_code`; the service makes a JSON
answer of it.
"""


class NextqueryError(Exception):
    """Base of all errors that nextquery raises on purpose."""

    exit_code = 1


class InputError(NextqueryError):
    """A file, row or value given by the user is wrong."""

    exit_code = 2


class LogError(InputError):
    """A raw log cannot be read, or too many of its rows are bad."""


class ConfigError(InputError):
    """A configuration key is unknown or its value invalid."""


class BlocklistError(InputError):
    """A blocklist is missing, empty or unreadable."""


class ArtifactError(NextqueryError):
    """A data, model or report folder is not what it should be."""

    exit_code = 2


class ChecksumError(ArtifactError):
    """A file of an artifact was altered or truncated."""


class TrainingError(NextqueryError):
    """Training cannot continue."""


class MissingDependencyError(NextqueryError):
    """An optional extra is needed and not installed."""

    exit_code = 2
