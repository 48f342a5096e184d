"""Model folders on the Hugging Face Hub: written, fetched and uploaded as they are.

A repository holds the files of a model folder with their manifest, so that what is fetched is
checked like any other folder. Uploading and fetching by name need `huggingface_hub`.
"""

import shutil
from pathlib import Path
from typing import Any

from nextquery.artifacts import open_artifact
from nextquery.errors import InputError, MissingDependencyError
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.loading import load

_CARD = """---
library_name: nextquery
tags: [query-suggestion, information-retrieval]
---
# {name}

A {kind} model of query suggestions, made by nextquery (`pip install nextquery`).

```python
from nextquery.integrations.hub import from_pretrained
from_pretrained("{name}").suggest(["cheap flights"])
```

It was learnt from a query log: share it only if the people whose queries these are agreed.
"""


def save_pretrained(model: Suggester | str | Path, folder: str | Path, name: str = "") -> Path:
    """Write a model (or copy its folder) with a card for the Hub; returns the folder."""
    target = Path(folder)
    if isinstance(model, str | Path):
        open_artifact(Path(model))
        if target.exists():
            raise InputError(f"{target}: exists already; choose a new folder")
        shutil.copytree(model, target)
    else:
        model.save(target)
    card = _CARD.format(name=name or target.name, kind=open_artifact(target, verify=False).kind)
    if not (target / "README.md").exists():
        (target / "README.md").write_text(card, encoding="utf-8")
    return target


def from_pretrained(name: str | Path, **options: Any) -> Suggester:
    """Open a model folder, or fetch one from the Hub by its name and open it.

    `revision`, `token` and the like go to `huggingface_hub.snapshot_download`.
    """
    if Path(name).is_dir():
        return load(name)
    return load(_hub().snapshot_download(str(name), **options))


def push_to_hub(
    model: Suggester | str | Path, name: str, folder: str | Path, **options: Any
) -> Any:
    """Write a model to `folder` and upload it; private unless `private=False` is given."""
    saved = save_pretrained(model, folder, name)
    hub = _hub()
    hub.create_repo(name, private=options.pop("private", True), exist_ok=True)
    return hub.upload_folder(repo_id=name, folder_path=str(saved), **options)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "huggingface_hub is not installed: pip install huggingface_hub"
        ) from None
    return huggingface_hub
