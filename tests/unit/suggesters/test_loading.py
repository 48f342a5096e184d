"""The table of model kinds."""

import re
from pathlib import Path

import pytest

import nextquery
from nextquery.errors import ArtifactError
from nextquery.model.settings import KIND, TRANSFORMER
from nextquery.suggesters.base import Decoding, Embedder, Explainer, Gated, Stateful
from nextquery.suggesters.loading import COUNT_MODELS, MODEL_KINDS, count_model, load, model_kind

SOURCE = Path(nextquery.__file__).parent


def test_the_classes_call_themselves_as_the_table_does() -> None:
    assert all(count_model(kind).kind == kind for kind in COUNT_MODELS)
    assert set(MODEL_KINDS) - set(COUNT_MODELS) == {KIND, TRANSFORMER, "blend", "reranked"}


def test_a_neural_kind_is_named_in_the_table_and_by_its_model_only() -> None:
    neural = {kind for kind, facts in MODEL_KINDS.items() if facts.neural}
    word = re.compile("|".join(f"[\"']{kind}[\"']" for kind in neural))
    files = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if word.search(path.read_text(encoding="utf-8"))
    }
    assert files == {"suggesters/loading.py", "model/settings.py"}


def test_a_folder_says_what_it_holds(served_models: dict[str, Path]) -> None:
    assert model_kind(served_models["hred"]).neural
    assert not model_kind(served_models["adjacency"]).neural


def test_a_folder_without_a_model_is_refused(prepared, tiny_log) -> None:  # type: ignore[no-untyped-def]
    data = prepared(tiny_log([("ann", ["a", "b"])]))
    with pytest.raises(ArtifactError, match="holds 'data', not a model"):
        model_kind(data.path)


@pytest.mark.parametrize("capability", [Decoding, Stateful, Explainer, Gated, Embedder])
def test_capabilities_are_seen_by_asking(
    capability: type[object], served_models: dict[str, Path]
) -> None:
    assert isinstance(load(served_models["hred"]), capability)
    assert not isinstance(load(served_models["adjacency"]), capability)
