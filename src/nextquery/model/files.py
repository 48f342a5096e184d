"""The files of a HRED model folder by name, apart so that no torch is imported to know them."""

from nextquery.artifacts import Artifact
from nextquery.model.settings import ModelConfig
from nextquery.text.query_vectors import QueryVectorTable, load_table

KIND = "hred"
WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.txt"
QUERY_VECTORS = "query_vectors.safetensors"


def stored_table(artifact: Artifact, config: ModelConfig) -> QueryVectorTable | None:
    """The query vectors of a model folder; None if the model reads none."""
    if not config.query_vectors:
        return None
    file = artifact.file(QUERY_VECTORS)
    return load_table(file, config.query_vectors, artifact.path / QUERY_VECTORS)
