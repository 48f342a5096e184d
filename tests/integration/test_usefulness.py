"""Usefulness from log to service: learnt from clicks, asked of models, refused by those without."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ServiceStarter
from tests.integration.training_runs import train

from nextquery import load, prepare
from nextquery.cli.main import app
from nextquery.errors import NextqueryError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.synthetic.log import write_log
from nextquery.suggesters.base import Decoding, UsefulnessJudge

FEW = ("--set=train.epochs=1", "--set=train.batch_words=512", "--set=model.copy=false")


def call(*arguments: str | Path) -> Any:
    from typer.testing import CliRunner

    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=True)


ALL = ("--set", "quality=false")


@pytest.mark.slow
def test_clicks_become_a_head_that_commands_and_service_ask(
    tmp_path: Path, start_service: ServiceStarter
) -> None:
    write_log(tmp_path / "log.tsv", 1500, seed=1, satisfaction="outcome")
    prepare(tmp_path / "log.tsv", tmp_path / "data", spelling=False)
    with_head, without = tmp_path / "useful", tmp_path / "plain"
    weight = "--set=train.usefulness_weight=1"
    assert train(tmp_path / "data", with_head, *FEW, weight)[0] == 0
    assert train(tmp_path / "data", without, *FEW)[0] == 0

    facts = json.loads((with_head / "manifest.json").read_text())
    assert facts["model"]["usefulness"]
    assert 0 < facts["training"]["validation_usefulness_nll"] < 1
    assert "Usefulness head:" in (with_head / "README.md").read_text()
    assert "no usefulness head" in (without / "README.md").read_text()

    model = load(with_head)
    assert isinstance(model, UsefulnessJudge)
    context = next(iter(PreparedData(tmp_path / "data").sessions("test"))).queries[:-1]
    # Trained for a moment only: the text-quality gate would leave nothing.
    assert isinstance(model, Decoding)
    free = model.config.model_copy(update={"quality": False})
    texts = [item.text for item in model.suggest(context, 3, config=free)]
    judged = model.usefulness_many([context], [texts])[0]
    assert all(0 < probability < 1 for probability in judged)

    words = [word for query in context for word in ("--context", query)]
    words += [word for text in texts for word in ("--candidate", text)]
    scored = json.loads(call("score", with_head, *words, "--usefulness", "2", "--json").stdout)
    assert [item["usefulness"] for item in scored["scores"]] == pytest.approx(judged)
    asked: list[str | Path] = ["suggest", with_head, *context, "--usefulness", "2", "--json"]
    free_list = json.loads(call(*asked, *ALL).stdout)["suggestions"]
    assert free_list
    assert all(0 < item["usefulness"] < 1 for item in free_list)
    listed = json.loads(call(*asked).stdout)
    for command, arguments in (("score", words), ("suggest", context)):
        failed = call(command, without, *arguments, "--usefulness", "2")
        assert isinstance(failed.exception, NextqueryError)
        assert "no usefulness head" in str(failed.exception)

    service = start_service(with_head, "--compare", f"b={without}", "--budget-ms", "20000")
    body = {"query": context[-1], "context": list(context[:-1]), "usefulness": 2.0}
    answer = service.post("/v1/suggest", body).json()
    assert [item["text"] for item in answer["suggestions"]] == [
        item["text"] for item in listed["suggestions"]
    ]
    refused = service.post("/v1/suggest", body | {"model": "b"})
    assert refused.status_code == 409
    assert "no usefulness head" in refused.text
    judges = [served["judges_usefulness"] for served in service.get("/v1/models").json()["models"]]
    assert judges == [True, False]
