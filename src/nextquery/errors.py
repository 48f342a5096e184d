"""The exception tree: every error that a user can cause; extras that are not installed.

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

from importlib import util


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


EXTRAS = {
    "neural": ("torch",),
    "train": ("torch", "tensorboard"),
    "experiment": ("lightgbm", "sklearn", "scipy", "rapidfuzz", "matplotlib"),
    "serve": ("fastapi", "uvicorn", "httptools", "prometheus_client", "fastapi_swagger"),
    "duckdb": ("duckdb", "pyarrow"),
    "spark": ("pyspark", "pyarrow"),
    "redis": ("redis",),
    "excel": ("python_calamine",),
    "opensearch": ("opensearchpy",),
    "onnx": ("onnx", "onnxruntime"),
}
"""What each extra adds, by the name under which it is imported."""
CORE = (
    "polars", "narwhals", "backports", "bm25s", "symspellpy", "safetensors",
    "phonenumbers", "stdnum",
)  # fmt: skip
"""What the core needs to read logs and fit; a service that only asks count models lacks it."""


def missing(extra: str) -> tuple[str, ...]:
    """The modules of an extra that are not installed."""
    return tuple(module for module in EXTRAS[extra] if util.find_spec(module) is None)


def require(*extras: str, install: str | None = None) -> None:
    """Refuse what needs extras before it begins; `install` is a name for them all."""
    for extra in extras:
        for module in missing(extra):
            package = f"'nextquery[{install or extra}]'"
            raise MissingDependencyError(f"{module} is not installed: pip install {package}")


def missing_message(module: str) -> str | None:
    """What to say when a module could not be imported; None if it is none of ours.

    >>> missing_message("torch")
    "torch is not installed: pip install 'nextquery[neural]'"
    >>> missing_message("polars")
    'polars is not installed: pip install nextquery'
    """
    top = module.split(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if top in modules), None)
    if extra is None and top not in CORE:
        return None
    package = f"'nextquery[{extra}]'" if extra else "nextquery"
    return f"{top} is not installed: pip install {package}"
