"""The weights of a model folder as memory-mapped arrays, checked and never copied.

A safetensors file is a length, a JSON header and the numbers. Names and shapes are those of the
parameters of the PyTorch network (a test compares the two).
"""

import json
import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from nextquery.artifacts import Artifact, read_artifact
from nextquery.config import Section, stored_section
from nextquery.errors import ArtifactError
from nextquery.inference.native import Library, address
from nextquery.model.settings import AGES, VOCABULARY, WEIGHTS, ModelConfig
from nextquery.text.vocabulary import Vocabulary

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]
Shape = tuple[int, ...]

MOST_ROWS = 256
"""Products of more rows are left to NumPy, which is as fast there."""

_CHECKED_AT_A_TIME = 1 << 12


def weight_shapes(config: ModelConfig, words: int) -> dict[str, Shape]:
    """The name and shape of every parameter of a model with a vocabulary of `words`.

    >>> config = ModelConfig(embedding_size=2, query_size=3, session_size=4)
    >>> weight_shapes(config, 7)["decoder_start.weight"]
    (3, 4)
    """
    d_e, d_h, d_s = config.embedding_size, config.query_size, config.session_size
    shapes: dict[str, Shape] = {
        **({"word_vectors.weight": (words, d_e)} if config.factored else {}),
        "encoder_input.matrix.weight": (3 * d_h, d_e) if config.factored else (words, 3 * d_h),
        **_recurrence("encoder", d_h, config.gru_biases),
        "session_input.weight": (3 * d_s, d_h),
        **_recurrence("session_encoder", d_s, config.gru_biases),
        "decoder_start.weight": (d_h, d_s),
        "decoder_start.bias": (d_h,),
        "decoder_input.matrix.weight": (3 * d_h, d_e) if config.factored else (words, 3 * d_h),
        **_recurrence("decoder", d_h, config.gru_biases),
        "output_state.weight": (d_e, d_h),
        "output_state.bias": (d_e,),
        "output_word.matrix.weight": (d_e, d_e) if config.factored else (words, d_e),
    }
    if config.character_ngrams:
        shapes["character_ngrams.weight"] = (config.character_ngrams, d_e)
    if not config.tied:
        shapes["output_vectors.weight"] = (words, d_e)
    if config.output_bias:
        shapes["output_bias"] = (words,)
    if config.decoder_context == "all":
        shapes["decoder_session.weight"] = (3 * d_h, d_s)
    if config.decoder_context != "first":
        shapes["output_session.weight"] = (d_e, d_s)
    if config.usefulness:
        shapes |= {"usefulness.weight": (1, d_h), "usefulness.bias": (1,)}
    return shapes | (copying_shapes(d_e, d_h) if config.copying else {})


def _recurrence(name: str, size: int, biases: bool) -> dict[str, Shape]:
    return {
        f"{name}.gates": (2 * size, size),
        f"{name}.candidate": (size, size),
        **({f"{name}.bias": (3 * size,)} if biases else {}),
    }


def copying_shapes(d_e: int, d_h: int) -> dict[str, Shape]:
    """The parameters of copying, with the same names in every network."""
    return {
        "copying.query.weight": (d_h, d_h + d_e),
        "copying.key.weight": (d_h, d_h),
        "copying.output.weight": (d_e, d_h),
        "copying.gate.weight": (1, 2 * d_h + d_e),
        "copying.gate.bias": (1,),
        "copying.age": (AGES,),
    }


Config = TypeVar("Config", bound=Section)
Network = TypeVar("Network")


def read_network(
    folder: Path | str | Artifact,
    kind: str,
    config_type: type[Config],
    shapes: Callable[[Config, int], Mapping[str, Shape]],
    make: Callable[[Config, Vocabulary, dict[str, Floats]], Network],
) -> Network:
    """Open the model folder of a network of this kind; the weights stay in the file.

    `shapes` are the parameters for a configuration and a number of words, `make` is called with
    configuration, vocabulary and weights.
    """

    def read(artifact: Artifact) -> Network:
        config = stored_section(config_type, artifact.entry("model"), artifact.path)
        vocabulary = Vocabulary.load(artifact.file(VOCABULARY))
        needed = shapes(config, len(vocabulary))
        weights = read_weights(artifact.file(WEIGHTS), needed, artifact.path / WEIGHTS)
        artifact.check_once("weights", lambda: check_finite(weights))
        return make(config, vocabulary, weights)

    return read_artifact(folder if isinstance(folder, Artifact) else Path(folder), read, kind)


def read_weights(file: Path, shapes: Mapping[str, Shape], shown: Path) -> dict[str, Floats]:
    """The arrays of a safetensors file, which must be exactly these, mapped into memory.

    `shown` is what messages call the file.
    """
    try:
        with safe_open(file, "numpy"):  # checks the header against the file
            pass
        with file.open("rb") as stream:
            start = 8 + int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(start - 8))
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(f"{shown}: cannot be read as safetensors ({error})") from None
    header.pop("__metadata__", None)
    stored = {name: (tuple(tensor["shape"]), tensor["dtype"]) for name, tensor in header.items()}
    if stored != {name: (shape, "F32") for name, shape in shapes.items()}:
        raise ArtifactError(f"{shown}: its tensors do not fit the configuration in the manifest")
    return {
        name: np.frombuffer(
            content, np.float32, int(np.prod(shape)), start + header[name]["data_offsets"][0]
        ).reshape(shape)
        for name, shape in shapes.items()
    }


def check_finite(weights: Weights) -> None:
    """Refuse weights that are not finite."""
    for name, values in weights.items():
        # Some rows at a time: the weights stay on the disk, and so must the check's memory.
        for start in range(0, len(values), _CHECKED_AT_A_TIME):
            if not np.isfinite(values[start : start + _CHECKED_AT_A_TIME]).all():
                raise ArtifactError(f"{WEIGHTS} has values in {name} that are not finite")


class WeightProducts:
    """Multiplies rows with weights; a matrix is packed for the kernel when it is first needed."""

    def __init__(self, weights: Weights, library: Library | None) -> None:
        """Without a `library`, NumPy multiplies."""
        self._weights = weights
        self._library = library
        self._packed: dict[str, Floats] = {}

    def times(self, name: str, rows: Floats) -> Floats:
        """`rows` (rows, inputs) times the transpose of the matrix `name` (outputs, inputs)."""
        matrix = self._weights[name]
        if self._library is None or len(rows) > MOST_ROWS:
            return np.asarray(rows @ matrix.T)
        packed = self._packed.get(name)
        if packed is None:
            packed = self._packed[name] = self._library.packed(matrix)
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        outputs, inputs = matrix.shape
        result = np.empty((len(rows), outputs), dtype=np.float32)
        self._library.product(
            *(address(rows), len(rows), address(packed), outputs, inputs, None, address(result))
        )
        return result
