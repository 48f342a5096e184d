"""A Chinese and an Arabic log through the pipeline: prepare, fit, train, suggest, serve."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ServiceStarter
from tests.languages import LANGUAGES

import nextquery
from nextquery.normalise import normalise_query
from nextquery.suggesters.base import Decoding

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_whole_pipeline_with_the_text_quality_gate(
    name: str, language_models: Callable[[str], Path], start_service: ServiceStarter
) -> None:
    language, folder = LANGUAGES[name], language_models(name)
    words = nextquery.PreparedData(folder / "data").words()
    assert language.word in words
    anchor, expected = language.query(1), language.query(2)
    service = start_service(
        folder / "hred", "--compare", f"adjacency={folder / 'adjacency'}", "--budget-ms", "60000"
    )

    def served(model: str) -> list[str]:
        body = {"query": anchor, "n": 20, "model": model}
        answer: Any = service.post("/v1/suggest", body).json()
        return [item["text"] for item in answer["suggestions"]]

    assert served("adjacency")[0] == expected, "as people write it"
    hred = nextquery.load(folder / "hred")
    assert isinstance(hred, Decoding)
    assert hred.suggest([anchor], n=1)[0].text == normalise_query(expected)
    shown = [normalise_query(text) for text in served("hred")]
    assert served("hred")[0] == expected, "as people write it"
    assert set(" ".join(shown).split()) <= set(words)
    # The gate is on: of what the model writes, the service shows a part.
    free = hred.config.model_copy(update={"quality": False})
    written = [item.text for item in hred.suggest([anchor], 20, config=free)]
    assert set(shown) < set(written)
