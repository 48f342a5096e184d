"""HRED through the protocols, on a machine without PyTorch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.inference.test_rescoring import by_hand

from nextquery.errors import InputError
from nextquery.model.hred import HRED
from nextquery.suggesters.loading import load
from nextquery.suggesters.neural import HREDSuggester

ASK = """
import json, sys
sys.modules["torch"] = None  # as if it were not installed
from nextquery import load
from nextquery.inference.settings import DecodeConfig
model = load(sys.argv[1])
context, n = json.loads(sys.argv[2]), 8
any_text = DecodeConfig(quality=False)  # an untrained model writes no query that people type
def with_(**values):
    return any_text.model_copy(update=values)
state = model.extend(model.encode(context[:-1]), context[-1])
print(json.dumps({
    "suggest": [each.text for each in model.suggest(context, n, config=any_text)],
    "after": [each.text for each in model.suggest_after([state], n, config=any_text)[0]],
    "fast": [each.text for each in model.suggest(context, n, config=with_(mode="fast"))],
    "sample": len(model.suggest(context, n, config=with_(strategy="sample"))),
    "diverse": [each.text for each in model.suggest(context, n, config=with_(diversity=.5))],
    "complete": [each.text for each in model.complete(context, context[0][:1], n, config=any_text)],
    "score": [each.log_likelihood for each in model.score(context, context)],
    "explain": [each.update for each in model.explain(context)],
    "neighbours": [each.text for each in model.neighbours(context[0].split()[0], 2, words=True)],
    "vectors": [list(model.word_vectors().shape), list(model.query_vectors(context).shape)],
    "torch": "torch" in sys.modules and sys.modules["torch"] is not None,
}))
"""


def asked(folder: Path, context: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-c", ASK, str(folder), json.dumps(context)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, Any] = json.loads(printed)
    return result


def test_everything_is_answered_without_torch(served_models: dict[str, Path]) -> None:
    folder = served_models["hred"]
    model = HRED.from_pretrained(folder)
    words = model.vocabulary.words[3:]
    context = [words[0], f"{words[1]} {words[2]}"]
    result = asked(folder, context)
    assert not result["torch"]
    assert result["suggest"] == result["after"]
    assert all(result[key] for key in ("suggest", "fast", "sample", "diverse", "complete"))
    assert all(text.startswith(context[0][:1]) for text in result["complete"])
    expected = [by_hand(model, context, item) for item in context]
    assert result["score"] == pytest.approx(expected, abs=1e-4)
    assert len(result["explain"]) == len(result["neighbours"]) == 2
    assert result["vectors"] == [[len(words) + 3, 8], [2, 12]]


def test_a_saved_copy_gives_the_same_lists(served_models: dict[str, Path], tmp_path: Path) -> None:
    model = load(served_models["hred"])
    model.save(tmp_path / "copy")
    assert load(tmp_path / "copy").suggest([], 5) == model.suggest([], 5)


def test_no_suggestion_may_be_asked_for_but_not_fewer(served_models: dict[str, Path]) -> None:
    model = load(served_models["hred"])
    assert isinstance(model, HREDSuggester)
    assert model.suggest([], 0) == model.complete([], "a", 0) == []
    with pytest.raises(InputError, match="must be at least 0"):
        model.suggest([], -1)
