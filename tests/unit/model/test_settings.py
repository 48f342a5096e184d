"""The shipped configs load, and say what every key is for."""

import itertools
import re

import pytest

from nextquery.config import load_config, shipped_configs
from nextquery.errors import ConfigError
from nextquery.model.settings import ModelConfig, RunConfig, TrainConfig, TransformerConfig
from nextquery.settings import descriptions

NAMES = ["paper", "small", "tiny", "transformer-small", "transformer-tiny"]
NOT_FOR_TRANSFORMERS = ("initialisation", "usefulness_weight")


def test_the_shipped_configs_are_known() -> None:
    assert list(shipped_configs()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_there_with_a_comment(name: str) -> None:
    config = load_config(RunConfig, name)
    lines = shipped_configs()[name].read_text(encoding="utf-8").splitlines()
    keys = [line.split(" = ")[0] for line in lines if re.match(r"\w+ = ", line)]
    sections = (type(config.model), TrainConfig)
    fields = [field.alias or key for s in sections for key, field in s.model_fields.items()]
    if isinstance(config.model, TransformerConfig):
        fields = [key for key in fields if key not in NOT_FOR_TRANSFORMERS]
    assert keys == fields
    for above, line in itertools.pairwise(lines):
        assert not re.match(r"\w+ = ", line) or above.startswith("# "), line


@pytest.mark.parametrize("section", [ModelConfig, TransformerConfig, TrainConfig, RunConfig])
def test_every_field_has_a_docstring(section: type[RunConfig]) -> None:
    assert list(descriptions(section)) == list(section.model_fields)
    assert all(descriptions(section).values())


def test_the_paper_config_is_the_paper() -> None:
    config = load_config(RunConfig, "paper")
    model = config.model
    assert isinstance(model, ModelConfig)
    sizes = (model.vocabulary_size, model.embedding_size, model.query_size, model.session_size)
    assert sizes == (90_000, 300, 1000, 1500)
    assert (model.factored, model.zero_step, model.start_query) == (True, False, False)
    assert (model.copying, model.dropout, model.tied) == (False, 0.0, False)
    assert (config.train.optimiser, config.train.clip, config.train.patience) == ("graves", 1, 5)


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("model.layers=2", "unknown key 'model.layers'"),
        ("model.dropout=1.5", "model.dropout"),
        ("train.optimiser=sgd", "train.optimiser"),
        ("train.epochs=0", "train.epochs"),
        (f"train.seed={1 << 63}", "train.seed"),
        (f"train.seed={1 << 64}", "train.seed"),
        (f"train.batch_words={1 << 31}", "train.batch_words"),
        (f"train.sort_window={1 << 64}", "train.sort_window"),
        (f"train.sampled_words={1 << 64}", "train.sampled_words"),
        (f"model.embedding_size={1 << 63}", "model.embedding_size"),
        (f"model.query_size={10**12}", "model.query_size"),
        (f"model.session_size={10**12}", "model.session_size"),
        (f"model.query_vectors={10**12}", "model.query_vectors"),
        (f"model.character_ngrams={1 << 64}", "model.character_ngrams"),
    ],
)
def test_a_bad_value_is_named(override: str, named: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(named)):
        load_config(RunConfig, "tiny", [override])


@pytest.mark.parametrize(
    "override",
    ["model.query_size=8", "model.heads=3", "train.initialisation=authors", "model.kind=lstm"],
)
def test_a_transformer_has_keys_of_its_own(override: str) -> None:
    with pytest.raises(ConfigError):
        load_config(RunConfig, "transformer-tiny", [override])


def test_tied_needs_factored() -> None:
    with pytest.raises(ConfigError, match="needs factored"):
        load_config(RunConfig, "tiny", ["model.tied=true", "model.factored=false"])


def test_a_weight_makes_the_usefulness_head() -> None:
    def has_head(config: RunConfig) -> bool:
        assert isinstance(config.model, ModelConfig)
        return config.model.usefulness

    assert not has_head(load_config(RunConfig, "tiny"))
    assert has_head(load_config(RunConfig, "tiny", ["train.usefulness_weight=0.5"]))
    stored = load_config(RunConfig, "tiny", ["train.usefulness_weight=1"]).model_dump(by_alias=True)
    assert has_head(RunConfig.model_validate(stored))
    with pytest.raises(ConfigError, match=r"goes with train\.usefulness_weight"):
        load_config(RunConfig, "tiny", ["model.usefulness=true"])


def test_keys_of_earlier_versions_are_dropped_unless_they_were_used() -> None:
    unused = {"query_vectors": 0, "teachers": [], "distillation": 0.5}
    assert ModelConfig.model_validate({"query_vectors": 0}) == ModelConfig()
    assert TrainConfig.model_validate({**unused, "query_vectors": ""}) == TrainConfig()
    with pytest.raises(ValueError, match=r"model\.query_vectors was removed in 0\.2\.0"):
        ModelConfig.model_validate({"query_vectors": 64})
    with pytest.raises(ValueError, match=r"train\.teachers was removed in 0\.2\.0"):
        TrainConfig.model_validate({"teachers": ["one"]})
