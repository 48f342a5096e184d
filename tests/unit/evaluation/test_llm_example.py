"""The example of the documentation, a language model as a system, against a local server."""

import importlib.util
import json
import math
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nextquery.ranking.cases import CaseSet, RankingCase
from nextquery.ranking.scoring import CaseScorer

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "llm_scorer.py"


class Endpoint(BaseHTTPRequestHandler):
    """/v1/completions with `echo`: a word of n letters has a probability of 2^-n, an end 1/2."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/completions" or self.headers["Authorization"] != "Bearer secret":
            self._answer(401, {"error": "wrong key"})
            return
        assert body["echo"]
        assert body["max_tokens"] == 0
        choices = [
            {"index": index, "text": prompt, "logprobs": logprobs(prompt)}
            for index, prompt in enumerate(body["prompt"])
        ]
        self._answer(200, {"choices": choices[::-1]})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


def logprobs(prompt: str) -> dict[str, Any]:
    tokens = [(match.start(), match.group()) for match in re.finditer(r"\n| ?[^\s]+", prompt)]
    values = [None, *(-math.log(2) * len(text.strip() or "x") for _, text in tokens[1:])]
    return {"text_offset": [start for start, _ in tokens], "token_logprobs": values}


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("llm_scorer", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_candidates_are_scored_by_their_tokens_alone(
    url: str, example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_URL", f"{url}/")
    monkeypatch.setenv("LLM_MODEL", "stub")
    monkeypatch.setenv("LLM_KEY", "secret")
    model = example.from_environment()
    case = RankingCase(1, ("paris", "cheap flights"), "cheap flights", ("rome", "in paris"), 0, 3)

    result = CaseScorer(model).score(CaseSet((case,)))

    # rome and the end of the line: 5 bits in 2 tokens; in, paris and the end: 8 bits in 3
    assert result.log_likelihood == pytest.approx([-5 * math.log(2), -8 * math.log(2)])
    assert result.words.tolist() == [2, 3]
    assert "stub" in model.identity


def test_the_answer_of_a_server_that_refuses_is_shown(url: str, example: ModuleType) -> None:
    with pytest.raises(RuntimeError, match=r"completions: 401: .*wrong key"):
        example.LanguageModel(url, "stub", "other").score(["a"], ["b"])
