"""What networks share: model folders, tensors on their device, word vectors, copying."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, Self, TypeVar

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
from nextquery.model.settings import AGES, VOCABULARY, WEIGHTS
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
        shown = artifact.path / WEIGHTS
        try:
            tensors = load_file(artifact.file(WEIGHTS))
        except (SafetensorError, OSError, ValueError) as error:
            raise ArtifactError(f"{shown}: cannot be read as safetensors ({error})") from None
        expected = {name: (weight.shape, weight.dtype) for name, weight in model.named_parameters()}
        if {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()} != expected:
            raise ArtifactError(f"{shown}: its tensors do not fit the configuration next to it")
        model.load_state_dict(tensors, assign=True, strict=False)
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


@dataclass(frozen=True)
class States:
    """What a network computes over a batch, as copying and the softmax take it."""

    words: Tensor
    """(symbols, d_h): the state at each encoder symbol."""
    decoder: Tensor
    """(positions, d_h): the state that predicts each target."""
    previous: Tensor
    """(positions, d_e): of the last word read (Eq. 10)."""
    omega: Tensor
    """(positions, d_e): Eq. 10, without copying."""


class Layout(NamedTuple):
    """How packed positions and the grid of the attention belong together."""

    rows: Tensor
    """(sessions, targets): the position in each cell; any where there is none."""
    places: Tensor
    """(positions,): the cell of each position in the flattened grid."""


@dataclass(frozen=True)
class Attention:
    """Where the decoder looks at each of its positions."""

    weights: Tensor
    """(sessions, targets, sources): `a_j`, zero where nothing can be copied."""
    output: Tensor
    """(positions, d_e): `C_o c_n`, to be added to omega."""
    gate: Tensor
    """(positions,): the logit of `g_n`; minus infinity where nothing can be copied."""


class CopyAttention(nn.Module):
    """Copying words of the session (after Attend-Copy-Generate, CIKM 2017); not in the paper.

    The decoder attends over the word states `h_{k,j}` of the earlier queries. With
    `e_n = E_o w_{n-1}` as in Eq. 10 and `age` the number of queries between (1: the anchor),

        a_j     = softmax_j( (A_q [d_{n-1}; e_n])^T A_k h_j / sqrt(d_h) + r_age(j) )
        c_n     = sum_j a_j h_j
        omega_n = omega(d_{n-1}, w_{n-1}) + C_o c_n
        g_n     = sigmoid( v^T [d_{n-1}; e_n; c_n] + b )
        P(w)    = (1 - g_n) softmax(o^T omega_n)_w + g_n sum_{j: w_j = w} a_j

    so that a word outside the vocabulary can be predicted if the session has it. Words of the
    session that the vocabulary lacks get ids from V on (`extended ids`). Where there is no earlier
    word, `g_n = 0`.
    """

    def __init__(self, query_size: int, embedding_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size + embedding_size, query_size, bias=False)  # A_q
        self.key = nn.Linear(query_size, query_size, bias=False)  # A_k
        self.output = nn.Linear(query_size, embedding_size, bias=False)  # C_o
        self.gate = nn.Linear(2 * query_size + embedding_size, 1)  # v, b
        self.age = nn.Parameter(torch.zeros(AGES))  # r
        self.scale = query_size**-0.5

    def attend(
        self, decoder: Tensor, previous: Tensor, sources: Tensor, ages: Tensor, layout: Layout
    ) -> Attention:
        """Look at the words of earlier queries from every decoder position.

        `decoder` is (positions, d_h): `d_{n-1}`; `previous` (positions, d_e): `E_o w_{n-1}`;
        `sources` (sessions, sources, d_h): `h_j`, without those of end-of-query symbols;
        `ages` (sessions, targets, sources): how many queries back each source is, 0 for a source
        that is not there or not earlier. Only the attention itself is computed on the grid.
        """
        inputs = torch.cat([decoder, previous], dim=1)
        queries = rows_at(self.scale * self.query(inputs), layout.rows)
        age_scores = rows_at(self.age[:, None], (ages - 1).clamp(0, AGES - 1)).squeeze(-1)
        scores = queries @ self.key(sources).transpose(1, 2) + age_scores
        allowed = ages > 0
        # A row without any source must stay finite: softmax over a constant, then zeroed.
        weights = scores.masked_fill(~allowed, -1e9).softmax(dim=-1) * allowed
        context = rows_at((weights @ sources).flatten(0, 1), layout.places)
        of_inputs, of_context = self.gate.weight[0].tensor_split([inputs.shape[1]])
        gate = inputs @ of_inputs + context @ of_context + self.gate.bias
        possible = allowed.any(dim=-1).flatten()[layout.places]
        return Attention(weights, self.output(context), gate.masked_fill(~possible, -torch.inf))
