"""nextquery: query suggestions learnt from a site's own query log.

The public names, imported when first used so that `import nextquery` is quick:

    load(path)    any suggester: `suggest(context, n)`, `score(context, candidates)`
    HRED          the network itself: `HRED.from_pretrained(path)`, `save_pretrained(path)`
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nextquery._version import __version__

if TYPE_CHECKING:
    from nextquery.model.hred import HRED
    from nextquery.suggesters.loading import load

# Read by Polars and Arrow when they are loaded: they are to give freed memory back to the system
# soon, since an eighth of the peak of `prepare` was memory that nobody used any more.
os.environ.setdefault("_RJEM_MALLOC_CONF", "background_thread:true,muzzy_decay_ms:0")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

_PUBLIC = {"HRED": "nextquery.model.hred", "load": "nextquery.suggesters.loading"}

__all__ = ["HRED", "__version__", "load"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'nextquery' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
