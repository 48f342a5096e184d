"""Slips and synonyms over HTTP: a count model in the service, HRED in its own process."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ServiceStarter, make_untrained_hred

from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model

SESSIONS = [
    *[(f"a{n}", ["television stand", "television wall mount"]) for n in range(40)],
    *[(f"b{n}", ["couch cover", "couch cover grey"]) for n in range(30)],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spelling")


@pytest.fixture(scope="module")
def service(folder: Path, prepared: Any, tiny_log: Any, start_service: ServiceStarter) -> Any:
    data = prepared(tiny_log(SESSIONS, min_users=3, spelling=True))
    fit_model(Adjacency, data).save(folder / "adjacency")
    make_untrained_hred(data, folder / "hred")
    (folder / "synonyms.txt").write_text("sofa, couch\n")
    (folder / "blocklist").write_text("grey\n")
    return start_service(
        folder / "adjacency",
        *("--compare", f"hred={folder / 'hred'}", "--synonyms", folder / "synonyms.txt"),
        *("--blocklist", folder / "blocklist", "--feedback", folder / "feedback"),
    )


def _ask(service: Any, path: str, **body: Any) -> Any:
    answer = service.post(path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _texts(items: Any) -> list[str]:
    return [item["text"] for item in items]


@pytest.mark.parametrize("model", ["adjacency", "hred"])
def test_a_typing_error_is_corrected_and_reported(service: Any, model: str) -> None:
    typed = _ask(service, "/v1/suggest", query="televsion stand", model=model)
    meant = _ask(service, "/v1/suggest", query="television stand", model=model)
    assert typed["corrected"] == {
        "text": "television stand",
        "changes": [{"typed": "televsion", "corrected": "television"}],
    }
    assert meant["corrected"] is None
    assert _texts(typed["suggestions"]) == _texts(meant["suggestions"])
    literal = _ask(service, "/v1/suggest", query="televsion stand", model=model, correct=False)
    assert literal["corrected"] is None
    if model == "adjacency":  # an untrained HRED has nothing good enough to show
        assert typed["suggestions"]
        assert literal["suggestions"] != typed["suggestions"]


@pytest.mark.parametrize("model", ["adjacency", "hred"])
def test_completion_tolerates_a_slip_and_knows_synonyms(service: Any, model: str) -> None:
    typed = _ask(service, "/v1/complete", prefix="telvision s", model=model)
    assert _texts(typed["completions"])[0] == "television stand"
    assert typed["corrected"]["text"] == "television s"
    synonym = _ask(service, "/v1/complete", prefix="sofa", model=model)
    assert "couch cover" in _texts(synonym["completions"])
    assert "couch cover grey" not in _texts(synonym["completions"])  # blocked
    literal = _ask(service, "/v1/complete", prefix="telvision s", model=model, correct=False)
    assert "television stand" not in _texts(literal["completions"])


def test_a_synonym_of_a_known_query_gets_its_list(service: Any) -> None:
    answer = _ask(service, "/v1/suggest", query="sofa cover")
    assert answer["corrected"] is None
    assert answer["suggestions"] == _ask(service, "/v1/suggest", query="couch cover")["suggestions"]


def test_sessions_and_feedback_have_what_was_typed(service: Any, folder: Path) -> None:
    first = _ask(service, "/v1/suggest", query="televsion stand", session_id="visitor")
    assert first["corrected"] is not None
    batch = {"requests": [{"query": "couch cover", "session_id": "visitor"}]}
    answer = service.post("/v1/suggest/batch", batch).json()["answers"][0]
    assert answer["corrected"] is None
    explained = service.post("/v1/explain", {"session_id": "visitor", "model": "hred"}).json()
    assert [query["text"] for query in explained["queries"]] == ["televsion stand", "couch cover"]
    recorded = "".join(file.read_text() for file in (folder / "feedback").rglob("*.ndjson"))
    assert '"context": ["televsion stand"]' in recorded
