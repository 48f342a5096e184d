"""A large language model behind an OpenAI-compatible endpoint as a system of an experiment.

    LLM_URL=http://localhost:8000/v1 LLM_MODEL=Qwen/Qwen3-8B-Base PYTHONPATH=docs/examples \\
        nextquery experiment data --model hred=models/hred \\
        --model llm=llm_scorer:from_environment \\
        --scenario next_query --test-users 200 --ranker-cases 1000 --out report

A candidate's score is its log-likelihood as the next line of a list of searches. The endpoint must
return the log-probabilities of the prompt (`echo` and `logprobs` of /v1/completions), as vLLM does.
Every query of the experiment is sent to the endpoint.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from nextquery.records import ScoredQuery

PROMPT = "Searches that one person typed one after the other, one per line:\n\n"
SECONDS = 120.0


class LanguageModel:
    """Scores candidates by the likelihood that a language model gives them."""

    def __init__(self, url: str, model: str, key: str = "") -> None:
        self._url = f"{url.rstrip('/')}/completions"
        self._model = model
        self._key = key
        self.identity = f"{model} after {PROMPT!r}"  # so that finished steps are kept

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The log-likelihood of each candidate, its end of line included; one request for all."""
        before = PROMPT + "".join(f"{query}\n" for query in context)
        choices = self._complete([f"{before}{text}\n" for text in candidates])
        return [
            ScoredQuery(text, *_likelihood(choice["logprobs"], len(before)))
            for text, choice in zip(candidates, choices, strict=True)
        ]

    def _complete(self, prompts: list[str]) -> list[dict[str, Any]]:
        body = {
            "model": self._model,
            "prompt": prompts,
            "max_tokens": 0,
            "echo": True,
            "logprobs": 1,
            "temperature": 0,
        }
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                choices = json.load(answer)["choices"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{self._url}: {error.code}: {error.read(500).decode()}") from None
        return sorted(choices, key=lambda choice: int(choice["index"]))


def _likelihood(logprobs: dict[str, Any], start: int) -> tuple[float, int]:
    """The sum of the log-probabilities of all tokens after character `start`, and their number."""
    ends = [*logprobs["text_offset"][1:], float("inf")]
    pairs = zip(ends, logprobs["token_logprobs"], strict=True)
    values = [value for end, value in pairs if end > start and value is not None]
    return sum(values), len(values)


def from_environment() -> LanguageModel:
    """The model that LLM_URL, LLM_MODEL and LLM_KEY name."""
    return LanguageModel(
        os.environ["LLM_URL"], os.environ["LLM_MODEL"], os.environ.get("LLM_KEY", "")
    )
