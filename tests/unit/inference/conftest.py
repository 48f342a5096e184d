"""Small random models: sharp enough that no two queries are equally likely."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
import torch

from nextquery.guard.guard import Guard
from nextquery.inference.context import DEFAULT_LIMITS, ContextLimits, ContextState
from nextquery.inference.decoder import NeuralModel
from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_network import HREDNetwork
from nextquery.inference.native import Library, native_library
from nextquery.inference.predictor import Predictor
from nextquery.inference.transformer import TransformerModel
from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionModel, new_model
from nextquery.model.settings import TRANSFORMER, ModelConfig, TransformerConfig
from nextquery.records import ScoredQuery, Suggestion
from nextquery.text.vocabulary import END_OF_QUERY, Vocabulary

ModelMaker = Callable[..., Any]
FIRST_ZERO = (
    *("encoder.bias", "session_encoder.bias", "decoder.bias", "output_bias"),
    "character_ngrams.weight",
)


def random_model(words: int = 40, seed: int = 0, **settings: Any) -> Any:
    """An HRED, or with `kind` a Transformer."""
    torch.manual_seed(seed)
    common = {"vocabulary_size": words, "embedding_size": 12}
    config: ModelConfig | TransformerConfig
    if "kind" in settings:
        sizes = {**common, "model_size": 16, "heads": 2, **settings}
        config = TransformerConfig.model_validate(sizes)
    else:
        sizes = {**common, "query_size": 16, "session_size": 20, **settings}
        config = ModelConfig.model_validate(sizes)
    model = new_model(config, Vocabulary(f"w{number}" for number in range(words))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
        # Queries should end after a few words, as people's do.
        model.output_vectors.weight[END_OF_QUERY] += 0.5 * torch.randn(config.embedding_size)
        for name, parameter in model.named_parameters():
            if name in FIRST_ZERO:
                parameter.normal_(std=0.5)
    return model


def network_of(model: HRED, *, compiled: bool = True) -> HREDNetwork:
    """The same model as decoding has it."""
    return HREDNetwork(model.config, model.vocabulary, model.arrays(), compiled=compiled)


def neural_model_of(model: SessionModel, *, compiled: bool = True) -> NeuralModel[Any]:
    if isinstance(model, HRED):
        return HREDModel(network_of(model, compiled=compiled))
    return TransformerModel(model.config, model.vocabulary, model.arrays(), compiled=compiled)


def predictor_of(
    model: SessionModel,
    guard: Guard | None = None,
    limits: ContextLimits = DEFAULT_LIMITS,
    *,
    compiled: bool = True,
) -> Predictor:
    return Predictor(neural_model_of(model, compiled=compiled), guard or Guard(), limits)


def texts(suggestions: Iterable[Suggestion | ScoredQuery]) -> list[str]:
    return [item.text for item in suggestions]


def assert_scored(
    predictor: Predictor,
    states: Sequence[ContextState[Any]],
    lists: Sequence[Sequence[Suggestion]],
    within: float = 1e-4,
) -> None:
    """The scores in a list of each session are the likelihoods that rescoring gives."""
    scored = predictor.score_many(states, list(map(texts, lists)))
    for suggestions, expected in zip(lists, scored, strict=True):
        assert [item.score for item in suggestions] == pytest.approx(
            [item.log_likelihood for item in expected], abs=within
        )


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"])
def compiled(request: pytest.FixtureRequest) -> bool:
    """With NumPy alone, and with the kernels of native/ where they are installed."""
    if request.param and native_library() is None:
        pytest.skip("nextquery-native is not installed (scripts/native)")
    return bool(request.param)


@pytest.fixture
def library() -> Library:
    """The compiled library, where it is installed."""
    installed = native_library()
    if installed is None:
        pytest.skip("nextquery-native is not installed (scripts/native)")
    return installed


@pytest.fixture
def instructions(request: pytest.FixtureRequest, library: Library) -> Iterator[Library]:
    """The library with the instruction set of the parameter; None: the best one."""
    if not library.use(request.param):
        pytest.skip(f"this processor has no {request.param}")
    yield library
    library.use(None)


@pytest.fixture
def make_model() -> ModelMaker:
    return random_model


BIASED = {"gru_biases": True, "output_bias": True}
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "copying": {"copy": True},
    "output": {"decoder_context": "output"},
    "all": {"decoder_context": "all", **BIASED},
    "output-copying": {"decoder_context": "output", "copy": True, **BIASED},
    "all-copying": {"decoder_context": "all", "copy": True},
    "ngrams-copying": {"character_ngrams": 50, "copy": True, "tied": True},
    "transformer": {"kind": TRANSFORMER},
    "transformer-copying": {"kind": TRANSFORMER, "copy": True},
}
"""The forms of the models that decoding must honour."""


@pytest.fixture(params=[False, True], ids=["plain", "copying"])
def model(request: pytest.FixtureRequest) -> Any:
    return random_model(copy=request.param)


@pytest.fixture
def hred(model: HRED) -> HREDModel:
    return HREDModel(network_of(model))


def hred_of(predictor: Predictor) -> HREDModel:
    assert isinstance(predictor.model, HREDModel)
    return predictor.model


@pytest.fixture(params=list(FORMS.values()), ids=list(FORMS))
def any_model(request: pytest.FixtureRequest) -> Any:
    return random_model(**request.param)


@pytest.fixture
def predictor(model: HRED, compiled: bool) -> Predictor:
    return predictor_of(model, compiled=compiled)


@pytest.fixture
def any_predictor(any_model: SessionModel, compiled: bool) -> Predictor:
    return predictor_of(any_model, compiled=compiled)
