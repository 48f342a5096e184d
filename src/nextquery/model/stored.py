"""What networks share: model folders, tensors on their device, first word vectors."""

from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from nextquery.artifacts import Artifact, publish, read_artifact
from nextquery.config import Section, stored_section
from nextquery.errors import ArtifactError
from nextquery.model.settings import VOCABULARY, WEIGHTS
from nextquery.text.vectors import WordVectors
from nextquery.text.vocabulary import Vocabulary

ConfigT = TypeVar("ConfigT", bound=Section)


class StoredModel(nn.Module, Generic[ConfigT]):
    """A network that can be written to a model folder and opened again."""

    kind: ClassVar[str]
    """The kind of its model folders."""
    title: ClassVar[str]
    """Its name in model cards."""
    config_type: ClassVar[type[Section]]

    def __init__(self, config: ConfigT, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights by name, as decoding reads them; they may share memory."""
        return {name: tensor.cpu().numpy() for name, tensor in self.stored().items()}

    @torch.no_grad()
    def stored(self) -> dict[str, Tensor]:
        """Return the weights as a model folder stores them."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    def loaded(self) -> None:
        """Undo what `stored` changed; called after the weights are read."""

    def save_pretrained(self, folder: Path | str) -> None:
        """Publish weights, vocabulary and configuration as a model folder."""
        with publish(Path(folder), self.kind, self.manifest_entries()) as partial:
            self.write_files(partial)

    def manifest_entries(self) -> dict[str, object]:
        """Return the manifest keys that `from_pretrained` needs."""
        return {"model": self.config.model_dump(by_alias=True)}

    def write_files(self, folder: Path) -> None:
        """Write weights and vocabulary into `folder`."""
        tensors = {name: tensor.contiguous() for name, tensor in self.stored().items()}
        save_file(tensors, folder / WEIGHTS)
        (folder / WEIGHTS).chmod(0o644)  # others may serve what one user trained
        self.vocabulary.save(folder / VOCABULARY)

    @classmethod
    def from_pretrained(cls, folder: Path | str | Artifact, *, verify: bool = True) -> Self:
        """Open a model folder, ready to use; the weights stay memory-mapped until written to.

        `verify` checks every file against the manifest first.
        """
        source = folder if isinstance(folder, Artifact) else Path(folder)
        return read_artifact(source, cls._read, cls.kind, verify=verify)

    @classmethod
    def _read(cls, artifact: Artifact) -> Self:
        config = stored_section(cls.config_type, artifact.entry("model"), artifact.path)
        vocabulary = Vocabulary.load(artifact.file(VOCABULARY))
        with torch.device("meta"), _SkipInitialisation():
            model = cls(config, vocabulary)  # type: ignore[arg-type]
        load_weights(model, artifact.file(WEIGHTS), artifact.path / WEIGHTS)
        artifact.check_once("weights", lambda: check_finite(model))
        model.loaded()
        return model.eval()


class _SkipInitialisation(TorchFunctionMode):
    """Skip the initialisation of PyTorch's layers.

    On the meta device it does nothing, but it imports 800 modules: a second and 70 MB.
    """

    def __torch_function__(  # type: ignore[no-untyped-def]
        self, func, types, args=(), kwargs=None
    ):
        if getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def load_weights(model: nn.Module, file: Path, shown: Path) -> None:
    """Give `model` the parameters of a safetensors file, which stays memory-mapped.

    Error messages name the file as `shown`.
    """
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(f"{shown}: cannot be read as safetensors ({error})") from None
    expected = {name: (weight.shape, weight.dtype) for name, weight in model.named_parameters()}
    if {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()} != expected:
        raise ArtifactError(f"{shown}: its tensors do not fit the configuration next to it")
    model.load_state_dict(tensors, assign=True, strict=False)


def check_finite(model: nn.Module) -> None:
    """Refuse weights with infinite values or NaN."""
    for name, parameter in model.named_parameters():
        # Some rows at a time: the weights stay on the disk, and so must the check's memory.
        if not all(
            bool(rows.isfinite().all()) for rows in torch.split(parameter.detach(), 1 << 12)
        ):
            raise ArtifactError(f"{WEIGHTS} has values in {name} that are not finite")


def tensor(model: nn.Module, array: NDArray) -> Tensor:  # type: ignore[type-arg]
    """The array on the model's device."""
    return torch.from_numpy(array).to(next(model.parameters()).device)


def rows_at(states: Tensor, index: Tensor) -> Tensor:
    """The rows of `states` (total, d) at `index` (...)."""
    # As an embedding: the gradient of plain indexing adds up in no fixed order.
    return functional.embedding(index, states)


@torch.no_grad()
def take_word_vectors(table: nn.Embedding, vocabulary: Vocabulary, given: WordVectors) -> None:
    """Begin with these vectors, reduced to the model's size and as long as those drawn at random.

    Words that are not among them keep their random vectors; if there are fewer numbers than the
    model has, the rest stay random, too.
    """
    weights = table.weight.to("cpu", copy=True)  # the model may be on a GPU
    vectors = torch.from_numpy(given.reduced(weights.shape[1]).vectors)
    spread = float(vectors.std())
    rows = torch.tensor([vocabulary.id(word) for word in given.words])
    weights[rows, : vectors.shape[1]] = vectors * (float(weights.std()) / max(spread, 1e-12))
    table.weight.copy_(weights)
