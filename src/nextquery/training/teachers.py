"""The models that a student learns from: opened, checked, and named in the student's manifest.

Knows model folders and what a teacher must have in common with its student; knows no loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextquery.artifacts import open_artifact
from nextquery.errors import ConfigError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.provenance import forgotten_since
from nextquery.model.files import KIND
from nextquery.model.hred import HRED
from nextquery.model.settings import ModelConfig
from nextquery.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class TeacherFacts:
    """What a student's folder says of a teacher."""

    run: str
    """The id of the run that made it."""
    perplexity: float | None
    """Of its validation sessions, if its manifest says."""

    def entries(self) -> dict[str, Any]:
        """The facts as manifest keys."""
        return {"run": self.run, "validation_perplexity": self.perplexity}


@dataclass(frozen=True)
class Teacher:
    """A trained model that others learn from."""

    model: HRED
    facts: TeacherFacts


def open_teachers(
    folders: Sequence[str], config: ModelConfig, vocabulary: Vocabulary, data: PreparedData
) -> list[Teacher]:
    """The teachers of a student of this shape; one that does not suit it is refused by name."""
    return [_open(Path(folder), config, vocabulary, data) for folder in folders]


def _open(folder: Path, config: ModelConfig, vocabulary: Vocabulary, data: PreparedData) -> Teacher:
    artifact = open_artifact(folder, KIND)
    model = HRED.from_pretrained(artifact)
    place = f"train.teachers: {folder}"
    if model.vocabulary.words != vocabulary.words:
        raise ConfigError(
            f"{place}: has another vocabulary ({len(model.vocabulary):,} symbols, here "
            f"{len(vocabulary):,}); train it on this data folder with this model.vocabulary_size"
        )
    if model.config.character_ngrams != config.character_ngrams:
        raise ConfigError(
            f"{place}: has model.character_ngrams = {model.config.character_ngrams}, here "
            f"{config.character_ngrams}: teachers and student must read unknown words alike"
        )
    if model.config.query_vectors:
        raise ConfigError(f"{place}: needs vectors of queries: a teacher must have none")
    forgotten = forgotten_since(artifact.manifest, data)
    if forgotten:
        raise ConfigError(
            f"{place}: learnt from {forgotten:,} users whom the data folder has forgotten since; "
            "train it anew"
        )
    training = artifact.manifest.get("training", {})
    facts = TeacherFacts(str(training.get("run", "")), training.get("validation_perplexity"))
    return Teacher(model, facts)


def describe(teachers: Sequence[TeacherFacts]) -> str:
    """A sentence for a model card; empty without teachers.

    >>> describe([TeacherFacts("0af3", 66.8), TeacherFacts("77b1", None)])
    'Learnt from 2 trained models as well (runs 0af3, 77b1).'
    """
    if not teachers:
        return ""
    runs = ", ".join(teacher.run[:8] for teacher in teachers)
    several = "s" if len(teachers) > 1 else ""
    return f"Learnt from {len(teachers)} trained model{several} as well (run{several} {runs})."
