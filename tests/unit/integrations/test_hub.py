"""Model folders for the Hugging Face Hub, without a network."""

import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from nextquery.errors import InputError, MissingDependencyError
from nextquery.integrations.hub import from_pretrained, push_to_hub, save_pretrained
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.loading import load


@pytest.fixture(scope="module")
def model(served_models: dict[str, Path]) -> Suggester:
    return load(served_models["popularity"])


def test_a_saved_model_opens_again(model: Suggester, tmp_path: Path) -> None:
    folder = save_pretrained(model, tmp_path / "mine")
    card = huggingface_hub.ModelCard.load(folder / "README.md")
    assert card.data.library_name == "nextquery"
    assert from_pretrained(folder).suggest([], 3) == model.suggest([], 3)
    copied = save_pretrained(folder, tmp_path / "copy")
    assert from_pretrained(copied).suggest([], 3) == model.suggest([], 3)
    with pytest.raises(InputError, match="exists already"):
        save_pretrained(folder, tmp_path / "copy")


def test_what_is_uploaded_is_the_folder(
    model: Suggester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls to the library, whose signatures are checked; nothing is sent."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def record(name: str) -> Any:
        real = getattr(huggingface_hub, name)

        def call(*arguments: Any, **named: Any) -> str:
            import inspect

            bound = inspect.signature(real).bind(*arguments, **named)
            calls.append((name, dict(bound.arguments)))
            return "done"

        return call

    for name in ("create_repo", "upload_folder"):
        monkeypatch.setattr(huggingface_hub, name, record(name))
    assert push_to_hub(model, "me/mine", tmp_path / "mine", commit_message="first") == "done"
    assert [name for name, _ in calls] == ["create_repo", "upload_folder"]
    assert calls[0][1]["private"] is True
    assert calls[1][1]["folder_path"] == str(tmp_path / "mine")


def test_a_name_is_fetched(
    model: Suggester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_pretrained(model, tmp_path / "fetched")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name: str(folder))
    assert from_pretrained("me/mine").kind == "popularity"
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependencyError, match="pip install huggingface_hub"):
        from_pretrained("me/mine")
