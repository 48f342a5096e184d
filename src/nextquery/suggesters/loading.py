"""Opening any model folder: a manifest's kind decides which class reads it.

Classes are named by module, so that a count model opens without torch. A file next to the folder
says whether the model passed `nextquery check`.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from nextquery.artifacts import Artifact, open_artifact, read_artifact, replaced_file
from nextquery.errors import ArtifactError, InputError
from nextquery.guard.guard import Guard, HitsCheck
from nextquery.suggesters.base import Suggester


@dataclass(frozen=True)
class ModelKind:
    """What opens a kind of model, and how it is served."""

    loader: str
    """`module:class`; the class has `load(folder, guard)`."""
    neural: bool = False
    """Trained rather than counted: it computes where others look up, so that a service gives it a
    process of its own."""
    wraps: bool = False
    """Holds another model in its folder, whose needs it has; the manifest's `base` says which."""


MODEL_KINDS = {
    "popularity": ModelKind("nextquery.suggesters.popularity:Popularity"),
    "adjacency": ModelKind("nextquery.suggesters.adjacency:Adjacency"),
    "qvmm": ModelKind("nextquery.suggesters.qvmm:QVMM"),
    "cacb": ModelKind("nextquery.suggesters.cacb:CACB"),
    "shortcuts": ModelKind("nextquery.suggesters.shortcuts:Shortcuts"),
    "rescue": ModelKind("nextquery.suggesters.rescue:Rescue"),
    "hred": ModelKind("nextquery.suggesters.neural:HREDSuggester", neural=True),
    "transformer": ModelKind("nextquery.suggesters.neural:TransformerSuggester", neural=True),
    "blend": ModelKind("nextquery.suggesters.blend:Blend", wraps=True),
    "reranked": ModelKind("nextquery.feedback.reranker:Reranker", wraps=True),
}
"""Every kind that `load` can open. A further kind is one row here and one class."""

COUNT_MODELS = tuple(
    kind for kind, facts in MODEL_KINDS.items() if not facts.neural and not facts.wraps
)
"""The kinds that `fit` can make."""


def load(
    path: str | Path,
    *,
    blocklist: Path | None = None,
    hits: HitsCheck | None = None,
    guarded: bool = True,
) -> Suggester:
    """Open the model folder at `path`, whatever its kind, with its guard.

    `blocklist` is a file of words and phrases never to be suggested, `hits` a function that says
    whether a query finds anything. Without `guarded` nothing is refused: for research, not for
    people's eyes. All files are checked against the manifest and each other, and belong to one
    model even if the folder is replaced meanwhile.

    >>> import nextquery
    >>> data = nextquery.prepare(LOG, "data", spelling=False)
    >>> fitted = nextquery.fit(data, "adjacency", "adjacency")
    >>> model = load("adjacency")
    >>> model.suggest(["paris"]) == fitted.suggest(["paris"])
    True
    >>> [round(scored.log_likelihood, 1) for scored in model.score(["paris"], ["google", "rome"])]
    [-1.6, -7.1]
    """

    def read(artifact: Artifact) -> Suggester:
        _kind_of(artifact)  # refuses what is not a model, which has no guard either
        guard = Guard.open(artifact, blocklist, hits, enforced=guarded)
        return load_artifact(artifact, guard)

    return read_artifact(Path(path), read)


def load_artifact(artifact: Artifact, guard: Guard) -> Suggester:
    """The model of an opened folder, with a guard that is open already."""
    suggester: Suggester = _named(_kind_of(artifact).loader).load(artifact, guard)
    return suggester


def model_kind(folder: Path) -> ModelKind:
    """What the table says of the model in a folder; a folder without a model is refused."""
    artifact = open_artifact(folder, verify=False)
    kind = _kind_of(artifact)
    if not kind.wraps:
        return kind
    base = MODEL_KINDS.get(str(artifact.entry("base")))
    if base is None:
        raise ArtifactError(f"{folder}: holds no model that is known here; make it again")
    return replace(kind, neural=base.neural)


def _kind_of(artifact: Artifact) -> ModelKind:
    if artifact.kind == "returning":
        raise ArtifactError(
            f"{artifact.path}: a model of returning visitors, which needs a model to be used with: "
            "set `returning` of the service"
        )
    if artifact.kind not in MODEL_KINDS:
        kinds = ", ".join(MODEL_KINDS)
        raise ArtifactError(
            f"{artifact.path}: holds {artifact.kind!r}, not a model; models are: {kinds}"
        )
    return MODEL_KINDS[artifact.kind]


def count_model(kind: str) -> Any:
    """The class of a count model."""
    if kind not in COUNT_MODELS:
        raise InputError(f"`kind` {kind}: must be one of {', '.join(COUNT_MODELS)}")
    return _named(MODEL_KINDS[kind].loader)


def _named(qualified_name: str) -> Any:
    module, name = qualified_name.split(":")
    return getattr(import_module(module), name)


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
