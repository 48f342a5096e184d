"""The optional extras of the package: which module belongs to which, and what is installed."""

from importlib import util

from nextquery.errors import MissingDependencyError

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


def extra_of(module: str) -> str | None:
    """The extra that installs a module, None if it belongs to none.

    >>> extra_of("torch"), extra_of("lightgbm.basic"), extra_of("polars")
    ('neural', 'experiment', None)
    """
    top = module.split(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if top in modules), None)


def missing(extra: str) -> tuple[str, ...]:
    """The modules of an extra that are not installed."""
    return tuple(module for module in EXTRAS[extra] if util.find_spec(module) is None)


def require(*extras: str, install: str | None = None) -> None:
    """Refuse what needs extras before it begins; `install` is a name for them all."""
    for extra in extras:
        for module in missing(extra):
            wanted = f"'nextquery[{install or extra}]'"
            raise MissingDependencyError(f"{module} is not installed: pip install {wanted}")


def missing_message(module: str) -> str | None:
    """What to say when a module could not be imported; None if it is none of ours.

    >>> missing_message("torch")
    "torch is not installed: pip install 'nextquery[neural]'"
    >>> missing_message("polars")
    'polars is not installed: pip install nextquery'
    """
    extra = extra_of(module)
    top = module.split(".")[0]
    if extra is None and top not in CORE:
        return None
    wanted = f"'nextquery[{extra}]'" if extra else "nextquery"
    return f"{top} is not installed: pip install {wanted}"
