"""The networks that can be trained, by the kind of their model folders."""

from pathlib import Path

from nextquery.artifacts import open_artifact
from nextquery.model.hred import HRED
from nextquery.model.settings import ModelConfig, TransformerConfig
from nextquery.model.transformer import Transformer
from nextquery.text.vocabulary import Vocabulary

SessionModel = HRED | Transformer
NETWORKS: dict[str, type[SessionModel]] = {HRED.kind: HRED, Transformer.kind: Transformer}


def new_model(config: ModelConfig | TransformerConfig, vocabulary: Vocabulary) -> SessionModel:
    """Make the network that a configuration describes, with random weights."""
    if isinstance(config, ModelConfig):
        return HRED(config, vocabulary)
    return Transformer(config, vocabulary)


def open_model(folder: Path) -> SessionModel:
    """Open the model folder of any of the networks."""
    artifact = open_artifact(folder, *NETWORKS)
    return NETWORKS[artifact.kind].from_pretrained(artifact)
