"""Configuration of model and training, and the file names of a model folder (no torch here)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from nextquery.config import Section

KIND, TRANSFORMER = "hred", "transformer"
"""The kinds of neural models."""
WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.txt"
AGES = 10
"""Copying: queries further back than this count as this far back."""
_MOST_NUMBERS = 1 << 16
"""No machine has the memory for states or vectors of more numbers."""
_MOST_UNITS = (1 << 31) - 1
"""The product of two such counts is still a 64-bit number."""


def _without_removed(values: Any, section: str, removed: Mapping[str, Any]) -> Any:
    """The values without keys of earlier versions; one that was used is refused by name."""
    if not isinstance(values, Mapping):
        return values
    for key, default in removed.items():
        if values.get(key, default) != default:
            raise ValueError(f"{section}.{key} was removed in 0.2.0: train a model without it")
    return {key: value for key, value in values.items() if key not in removed}


class ModelConfig(Section):
    """The shape of HRED; the paper's equations are the default wherever there is a choice."""

    vocabulary_size: int = Field(default=90_000, ge=1)
    """V without special symbols: the most frequent words of the data folder that are kept."""
    embedding_size: int = Field(default=300, ge=1, le=_MOST_NUMBERS)
    """d_e: numbers per input and output word vector."""
    query_size: int = Field(default=1000, ge=1, le=_MOST_NUMBERS)
    """d_h: numbers in a state of the query encoder and of the decoder."""
    session_size: int = Field(default=1500, ge=1, le=_MOST_NUMBERS)
    """d_s: numbers in a state of the session encoder."""
    factored: bool = True
    """One input vector per word, shared and projected; false: the `I` matrices over all of V."""
    zero_step: bool = False
    """Take one decoder step on a zero input before the first word, as the authors' code does."""
    start_query: bool = False
    """Begin every session with an encoded empty query, as the authors' code does."""
    tied: bool = False
    """Use the input word vectors as output vectors too; needs `factored`."""
    decoder_context: Literal["first", "output", "all"] = "first"
    """Where the decoder sees the session state: in `d_0` only, as in the paper; also in omega; also
    at every step, as the authors' code can."""
    gru_biases: bool = False
    """Give the three GRUs of Eq. 3 biases, as the authors' code does."""
    output_bias: bool = False
    """Add a number per word to the scores of Eq. 9, as the authors' code does."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of word-vector, query-vector and output-vector entries dropped while training."""
    character_ngrams: int = Field(default=0, ge=0, le=_MOST_UNITS)
    """Buckets of vectors for the character n-grams of words, whose mean is added to the word's own
    vector; needs `factored`. 0: none, as in the paper."""
    copying: bool = Field(default=False, alias="copy")
    """Let the decoder point at words of the earlier queries, those outside V included."""
    usefulness: bool = False
    """A second head, which says how likely a query is useful (`train.usefulness_weight`)."""

    @model_validator(mode="before")
    @classmethod
    def _removed(cls, values: Any) -> Any:
        return _without_removed(values, "model", {"query_vectors": 0})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.tied and not self.factored:
            raise ValueError("tied = true needs factored = true: both use one vector per word")
        if self.character_ngrams and not self.factored:
            raise ValueError("character_ngrams needs factored = true: one vector per word")
        return self


class TransformerConfig(Section):
    """The shape of the session Transformer; its output vectors are its input vectors."""

    kind: Literal["transformer"] = "transformer"
    """Always `transformer`."""
    vocabulary_size: int = Field(default=90_000, ge=1)
    """V without special symbols: the most frequent words of the data folder that are kept."""
    embedding_size: int = Field(default=300, ge=1, le=_MOST_NUMBERS)
    """d_e: numbers per word vector."""
    model_size: int = Field(default=1000, ge=2, le=_MOST_NUMBERS)
    """d: numbers in a state."""
    layers: int = Field(default=2, ge=1, le=100)
    """Blocks of attention and feed-forward layers."""
    heads: int = Field(default=4, ge=1)
    """Attention heads; each has an even share of the state."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of word-vector, branch and output-vector entries dropped while training."""
    copying: bool = Field(default=False, alias="copy")
    """Let the model point at words of the earlier queries, those outside V included."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model_size % (2 * self.heads):
            raise ValueError("model_size must be a multiple of twice the number of heads")
        return self


class TrainConfig(Section):
    """How the model is trained."""

    seed: int = Field(default=1, ge=0, lt=1 << 63)
    """Decides the first weights, the order of sessions, dropout and the sampled words."""
    epochs: int = Field(default=10, ge=1)
    """Passes over the background sessions, unless early stopping comes first."""
    max_steps: int = Field(default=0, ge=0)
    """Training stops after this many steps; 0: `epochs` and `patience` decide."""
    batch_words: int = Field(default=1024, ge=1, le=_MOST_UNITS)
    """Symbols to predict per step, over all processes; sessions are never cut to fit."""
    max_queries: int = Field(default=20, ge=2)
    """A longer session is cut into consecutive sessions of at most this many queries."""
    max_words: int = Field(default=30, ge=1)
    """Of a longer query only the first words are read."""
    sort_window: int = Field(default=64, ge=1, le=_MOST_UNITS)
    """Number of batches whose sessions are sorted by length, which saves time; 1: no sorting."""
    initialisation: Literal["default", "authors"] = "default"
    """First weights: by the size of each layer, or N(0, .01) as in the authors' code."""
    word_vectors: str = ""
    """A file of initial word vectors (docs/explanation/training.md); empty: at random."""
    optimiser: Literal["adam", "rmsprop", "graves"] = "adam"
    """Adam as in the authors' code; RMSProp as in the paper's reference (Graves 2013), with its
    constant inside the root (`graves`), or as libraries have it, outside (`rmsprop`)."""
    rate: float = Field(default=1e-3, gt=0.0)
    """The learning rate at the start."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the rate rises evenly from 0 to `rate`; 0: it is there at once."""
    decay: float = Field(default=1.0, gt=0.0, le=1.0)
    """The rate is multiplied by this at every validation that brings no improvement."""
    clip: float = Field(default=1.0, gt=0.0)
    """Gradients whose norm exceeds this are scaled down to it."""
    loss: Literal["auto", "exact", "sampled"] = "auto"
    """Exact: over all of V. Sampled: over some words. Auto: sampled if V exceeds `exact_below`."""
    loss_per: Literal["word", "session"] = "word"
    """The loss of a batch is its mean over the predicted symbols, or the sum over a session's
    symbols, mean over sessions, as in the authors' code: then `clip` cuts more often."""
    usefulness_weight: float = Field(default=0.0, ge=0.0)
    """Weight of the loss of the usefulness head against that of the words, both per query; 0: the
    model has no such head, as in the paper."""
    exact_below: int = Field(default=5_000, ge=0)
    """The vocabulary up to which `auto` takes the exact loss."""
    head_words: int = Field(default=1_000, ge=0)
    """Sampled loss: the most frequent words, which are always counted exactly."""
    sampled_words: int = Field(default=2_000, ge=1, le=_MOST_UNITS)
    """Sampled loss: draws per step from the other words, by their frequency."""
    chunk: int = Field(default=256, ge=1)
    """Exact loss: predictions whose scores over V are held at one time."""
    validate_every: int = Field(default=0, ge=0)
    """Steps between validations; 0: at the end of each epoch."""
    validation_sessions: int = Field(default=0, ge=0)
    """Validation sessions used while training, drawn at random; 0: all of them."""
    patience: int = Field(default=5, ge=1)
    """Training stops after this many validations in a row without improvement."""
    checkpoint_minutes: float = Field(default=10.0, gt=0.0)
    """Time between checkpoints; one more is written at every validation and when stopped."""
    checkpoint_every: int = Field(default=0, ge=0)
    """Steps between checkpoints, in addition to those by time; 0: by time only."""
    report_every: int = Field(default=20, ge=1)
    """Steps between lines of `metrics.jsonl`."""

    @model_validator(mode="before")
    @classmethod
    def _removed(cls, values: Any) -> Any:
        return _without_removed(
            values, "train", {"teachers": [], "distillation": 0.5, "query_vectors": ""}
        )

    def sampled(self, symbols: int) -> bool:
        """Whether the loss over a vocabulary of this many symbols is sampled."""
        large = self.loss == "auto" and symbols > self.exact_below
        return self.loss == "sampled" or large


def _kind_of_model(values: Any) -> str:
    """The network that a `[model]` section describes; HRED's has no `kind`."""
    if isinstance(values, Mapping):
        return f"({values.get('kind', KIND)})"
    return f"({TRANSFORMER})" if isinstance(values, TransformerConfig) else f"({KIND})"


class RunConfig(Section):
    """What a config file of `nextquery train` holds."""

    model: Annotated[
        Annotated[ModelConfig, Tag("(hred)")] | Annotated[TransformerConfig, Tag("(transformer)")],
        Discriminator(_kind_of_model),
    ] = ModelConfig()
    """The shape of the model."""
    train: TrainConfig = TrainConfig()
    """How it is trained."""

    @model_validator(mode="before")
    @classmethod
    def _head(cls, values: Any) -> Any:
        """A weight makes the head, so that there is one key to set."""
        if not isinstance(values, Mapping):
            return values
        train, model = values.get("train"), values.get("model", {})
        weight = train.get("usefulness_weight") if isinstance(train, Mapping) else None
        if isinstance(weight, int | float) and weight > 0 and isinstance(model, Mapping):
            return {**values, "model": {**model, "usefulness": True}}
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.model, TransformerConfig):
            for key, default in {"usefulness_weight": 0.0, "initialisation": "default"}.items():
                if getattr(self.train, key) != default:
                    raise ValueError(f"train.{key} is for HRED only: remove it")
            return self
        if self.train.word_vectors and not self.model.factored:
            raise ValueError("train.word_vectors needs model.factored = true: one vector per word")
        if self.model.usefulness != (self.train.usefulness_weight > 0):
            raise ValueError("model.usefulness goes with train.usefulness_weight above 0: set that")
        return self
