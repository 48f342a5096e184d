"""The file next to a model folder that says whether the model passed `nextquery check`."""

import hashlib
import json
from pathlib import Path
from typing import Any

from nextquery.artifacts import open_artifact, replaced_file
from nextquery.errors import ArtifactError


def check_file(model: Path) -> Path:
    """Where the result of a model's check is.

    >>> check_file(Path("models/hred")).name
    'hred.check.json'
    """
    return model.with_name(f"{model.name}.check.json")


def fingerprint(model: Path) -> str:
    """The identity of a model: the checksums of its files, whatever its folder."""
    files = json.dumps(open_artifact(model, verify=False).manifest["files"], sort_keys=True)
    return hashlib.sha256(files.encode()).hexdigest()


def write_check(model: Path, document: dict[str, Any], checked: str) -> None:
    """Write the result next to the model; `checked` is the fingerprint of what was compared."""
    content = json.dumps({"model": checked, **document}, indent=2) + "\n"
    with replaced_file(check_file(model)) as file:
        file.write(content.encode())


def require_check(model: Path) -> None:
    """Refuse a model folder without a passed check of exactly this model."""
    path = check_file(model)
    advice = "run `nextquery check NEW --against OLD --data DATA`"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        passed, checked = document["passed"], document["model"]
    except FileNotFoundError:
        raise ArtifactError(
            f"{model}: was not checked ({path.name} is missing); {advice}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{path}: cannot be read ({error}); {advice}") from None
    if checked != fingerprint(model):
        raise ArtifactError(f"{model}: {path.name} is about another model; {advice}")
    if passed is not True:
        raise ArtifactError(f"{model}: did not pass its check, see {path.name}")
