"""Making a blend of a trained model and count models: its weights, learnt on sessions held out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from nextquery.artifacts import MANIFEST, check_target, open_artifact, publish
from nextquery.config import Section
from nextquery.errors import InputError
from nextquery.guard.guard import Guard
from nextquery.guard.guard_tables import FOLDER as GUARD
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.base import Suggester, Trained
from nextquery.suggesters.blending.blend import BASE, KIND, MEMBERS, Blend
from nextquery.suggesters.blending.blend_parts import Parts
from nextquery.suggesters.blending.mixture import Mixture, fit_mixture
from nextquery.suggesters.count_suggester import CountSuggester
from nextquery.suggesters.loading import load, load_artifact

MOST_MEMBERS = 4
"""Each further one doubles the rows of weights to be learnt."""
TOGETHER = 32


class BlendSettings(Section):
    """How a blend is made."""

    specificity: float = Field(default=0.25, ge=0.0, le=1.0)
    """How much of its log-likelihood without a session a suggestion loses, unless a call asks
    otherwise."""
    cases: int = Field(default=2000, ge=1)
    """So many validation sessions, drawn at random, decide the weights."""
    seed: int = Field(default=0, ge=0)
    """Decides which."""


def make_blend(
    base: Path,
    members: Sequence[Path],
    data: PreparedData,
    out: Path,
    settings: BlendSettings | None = None,
) -> Blend:
    """Learn the weights on the validation sessions of `data`, and publish the blend at `out`."""
    settings = settings or BlendSettings()
    check_target(out, KIND)
    guard = Guard.open(base)
    trained, *others = (load_artifact(open_artifact(path), guard) for path in (base, *members))
    if not isinstance(trained, Trained):
        raise InputError(f"{base}: of kind {trained.kind!r}; a blend has a trained model first")
    for path, other in zip(members, others, strict=True):
        if not isinstance(other, CountSuggester):
            raise InputError(f"{path}: of kind {other.kind!r}; beside the first are count models")
    if not 1 <= len(members) <= MOST_MEMBERS:
        raise InputError(f"`members`: a blend has 1 to {MOST_MEMBERS} count models")
    mixture = learn_mixture(trained, others, _cases(data, settings))
    publish_blend(out, base, members, mixture, settings)
    blend = load(out)
    assert isinstance(blend, Blend)
    return blend


Case = tuple[tuple[str, ...], str]


def _cases(data: PreparedData, settings: BlendSettings) -> list[Case]:
    """Contexts of validation sessions and what was typed next."""
    sessions = [session.queries for session in data.sessions("validation")]
    if not sessions:
        raise InputError(
            f"{data.path}: no validation sessions, on which a blend's weights are learnt"
        )
    drawn = np.random.default_rng(settings.seed).permutation(len(sessions))[: settings.cases]
    return [(sessions[place][:-1], sessions[place][-1]) for place in np.sort(drawn)]


def learn_mixture(
    trained: Trained[Any], members: Sequence[Suggester], cases: Sequence[Case]
) -> Mixture:
    """The weights under which what was typed next is likeliest."""
    nothing = np.zeros((1 << len(members), len(members) + 1))
    parts = Parts(trained, members, Mixture.of(nothing))
    rows, logs = [], []
    for start in range(0, len(cases), TOGETHER):
        some = cases[start : start + TOGETHER]
        contexts = [context for context, _ in some]
        scores = trained.score_many(contexts, [[wanted] for _, wanted in some])
        for context, scored in zip(contexts, scores, strict=True):
            rows.append(parts.row(context))
            logs.append(parts.logs(context, scored)[:, 0])
    return fit_mixture(np.array(rows), np.array(logs))


def publish_blend(
    out: Path, base: Path, members: Sequence[Path], mixture: Mixture, settings: BlendSettings
) -> None:
    """Write the folder of a blend whose weights are known."""
    first, *others = artifacts = [open_artifact(path) for path in (base, *members)]
    entries: dict[str, Any] = {
        "base": first.kind,
        "members": [each.kind for each in others],
        "weights": mixture.weights.tolist(),
        "specificity": settings.specificity,
        "settings": settings.model_dump(mode="json"),
    }
    if "data" in first.manifest:
        entries["data"] = first.manifest["data"]
    with publish(out, KIND, entries) as folder:
        first.copy_files(folder, first.files(GUARD))
        places = [BASE, *(f"{MEMBERS}/{place}" for place in range(len(others)))]
        for place, artifact in zip(places, artifacts, strict=True):
            artifact.copy_files(folder / place, artifact.manifest["files"])
            (folder / place / MANIFEST).write_bytes(artifact.manifest_bytes)
