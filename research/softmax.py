"""Exact against sampled softmax: the same sessions, seed and number of steps.

    python -m research softmax WORK

A small network with 10,000 words. The sampled loss has the same share of the vocabulary as in
configs/paper.toml: 2,000 + 4,000 of 90,000 words there, 222 + 444 of 10,000 here.
"""

import json
import resource
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from bench import train as bench
from nextquery.model.likelihood import CandidateSampler, SessionLikelihood
from nextquery.training.optimiser import Optimiser
from nextquery.training.trainer import Feed
from research.commands import make, save
from research.reproduction import measure, read_time

SETTINGS = {
    "model.vocabulary_size": 10_000,
    "model.embedding_size": 32,
    "model.query_size": 64,
    "model.session_size": 96,
    "train.batch_words": 128,
    "train.optimiser": "adam",
    "train.rate": 0.002,
    "train.epochs": 2,
    "train.head_words": 222,
    "train.sampled_words": 444,
    "train.validate_every": 2000,
    "train.validation_sessions": 500,
}
"""Changes to configs/paper.toml."""


def study(work: Path) -> None:
    """Train with both losses and write docs/results/softmax.json."""
    log, data = work / "log.tsv", work / "data"
    make(log, ["synth", str(log), "--sessions", "70000", "--seed", "1", "--extra-words", "20000"])
    make(data, ["prepare", str(log), "--out", str(data), "--no-spelling", "--no-journal"])
    for loss in ("exact", "sampled"):
        sets = [f"--set={key}={value}" for key, value in {**SETTINGS, "train.loss": loss}.items()]
        train = ["train", str(data), "--out", str(work / loss), "--config", "paper", *sets]
        measure(work, loss, train)
    save("softmax", {**collect(work), "papers_size": papers_size()})


def papers_size() -> dict[str, Any]:
    """Time and memory of a step of each loss, each in its own process."""
    command = [sys.executable, "-m", "research.softmax"]
    return {
        loss: json.loads(subprocess.run([*command, loss], capture_output=True, check=True).stdout)
        for loss in ("exact", "sampled")
    }


def collect(work: Path) -> dict[str, Any]:
    """Validation perplexities and CPU time per step of both runs."""
    runs = {loss: _run(work, loss) for loss in ("exact", "sampled")}
    return {"date": date.today().isoformat(), "settings": SETTINGS, **runs}


def _run(work: Path, loss: str) -> dict[str, Any]:
    lines = [json.loads(line) for line in (work / loss / "metrics.jsonl").read_text().splitlines()]
    steps = max(line["step"] for line in lines)
    measured = read_time((work / f"{loss}.time").read_text())
    return {
        "steps": steps,
        "cpu_ms_per_step": round(measured["cpu_s"] * 1000 / steps, 1),
        "validation": [
            [line["step"], round(line["validation_perplexity"], 3)]
            for line in lines
            if "validation_perplexity" in line
        ],
    }


def step_at_papers_size(loss: str, steps: int = 3) -> dict[str, float]:
    """CPU seconds of a step with 90,000 words and 300/1,000/1,500, after two to warm up.

    Random sessions; the optimiser of configs/paper.toml.
    """
    corpus = bench._sessions("paper")
    model = bench._model("paper")
    sampled = loss == "sampled"
    for vectors in (model.word_vectors, model.output_vectors):
        assert vectors is not None
        vectors.sparse = sampled or vectors is model.word_vectors
    likelihood = SessionLikelihood(model, chunk=256)
    optimiser = Optimiser(likelihood, "graves", 1e-4)
    sampler = CandidateSampler(corpus.word_counts(), 2000, 4000) if sampled else None
    feed = Feed(corpus, 1, 1024, sampler=sampler)
    started = 0.0
    for number, step in enumerate(feed.steps(feed.epoch(0)[: steps + WARM_UP], 0, 1)):
        if number == WARM_UP:
            started = time.process_time()
        optimiser.clear()
        total, rows = likelihood(step.batch, step.candidates)
        (-total / len(rows)).backward()
        optimiser.clip(1.0)
        optimiser.step(1e-4)
    seconds = (time.process_time() - started) / steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu_s_per_step": round(seconds, 2), "peak_mb": round(peak)}


WARM_UP = 2

if __name__ == "__main__":
    print(json.dumps(step_at_papers_size(sys.argv[1])))
