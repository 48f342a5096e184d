"""Rewriting by the data frames that PyTerrier documents, and in a pipeline of PyTerrier itself."""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nextquery.errors import InputError, MissingDependencyError
from nextquery.integrations.pyterrier import query_rewriter, rewrite
from nextquery.suggesters.loading import load


@pytest.fixture(scope="module")
def model(served_models: dict[str, Path]) -> Any:
    return load(served_models["adjacency"])


@pytest.fixture(scope="module")
def known(model: Any) -> str:
    queries = model.guard.tables.queries.keys()
    return next(str(text) for text in queries if len(model.suggest([text], 2)) == 2)


def test_words_of_suggestions_are_added_once(model: Any, known: str) -> None:
    topics = pd.DataFrame({"qid": ["1", "2"], "query": [known, "never seen before"]})
    result = rewrite(topics, model, n=2)
    words = " ".join([known, *(item.text for item in model.suggest([known], 2))]).split()
    assert result["query"].tolist() == [" ".join(dict.fromkeys(words)), "never seen before"]
    assert result["query_0"].tolist() == [known, "never seen before"]
    assert result["qid"].tolist() == ["1", "2"]


def test_the_best_suggestion_takes_its_place(model: Any, known: str) -> None:
    topics = pd.DataFrame({"qid": ["1"], "query": [known], "query_0": ["typed"]})
    result = rewrite(topics, model, mode="replace")
    assert result.to_dict("records") == [
        {
            "qid": "1",
            "query": model.suggest([known], 1)[0].text,
            "query_0": known,
            "query_1": "typed",
        }
    ]


def test_results_of_an_earlier_stage_are_left_out(model: Any, known: str) -> None:
    results = {"qid": ["1", "1"], "query": [known] * 2, "docno": ["a", "b"], "score": [2.0, 1.0]}
    result = rewrite(pd.DataFrame(results), model)
    assert list(result.columns) == ["qid", "query_0", "query"]
    assert len(result) == 1


def test_earlier_queries_count(model: Any, known: str) -> None:
    best = model.suggest([known], 1)[0].text
    topics = pd.DataFrame({"qid": ["1"], "query": [known], "context": [[best]]})
    assert rewrite(topics, model, 1, "replace")["query"][0] != best, "it was typed before"


def test_wrong_topics_and_a_missing_library_are_named(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="no column 'query'"):
        rewrite(pd.DataFrame({"qid": ["1"]}), model)
    monkeypatch.setitem(sys.modules, "pyterrier", None)
    with pytest.raises(MissingDependencyError, match="pip install python-terrier"):
        query_rewriter(model)


def test_it_joins_pipelines_of_pyterrier_itself(model: Any, known: str) -> None:
    import pyterrier

    rewriter = query_rewriter(model, n=2)
    assert isinstance(rewriter, pyterrier.Transformer)
    counted = rewriter >> pyterrier.apply.generic(lambda topics: topics.assign(rows=len(topics)))
    result = counted(pd.DataFrame({"qid": ["1"], "query": [known]}))
    expected = rewrite(pd.DataFrame({"qid": ["1"], "query": [known]}), model, n=2)
    assert result["query"].tolist() == expected["query"].tolist()
    assert result["rows"].tolist() == [1]
    assert rewriter.search(known)["query_0"].tolist() == [known]
    outputs = pyterrier.inspect.transformer_outputs(rewriter, ["qid", "query"])
    assert outputs == ["qid", "query_0", "query"]
    assert not pyterrier.java.started(), "no Java is needed to rewrite"
