"""Training speed: this trainer against a plain one, at the same model size, in one run.

The plain trainer is what one writes first: shuffled sessions padded to a grid of (sessions,
queries, words), the full cross entropy over all of it, dense RMSProp. Both compute in float32 on
the CPU with the same threads; the rate is that of real symbols, padding not counted. On a busy
machine the ratio of processor times says more than that of times on the clock.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nextquery.model.hred import HRED
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.sampled_softmax import CandidateSampler
from nextquery.model.settings import ModelConfig
from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, SPECIAL, Vocabulary
from nextquery.training.feed import Feed, Order
from nextquery.training.optimiser import Optimiser

SIZES = {"small": (20_000, 128, 256, 384), "paper": (90_000, 300, 1000, 1500)}
HEAD_AND_SAMPLED = {"small": (1000, 2000), "paper": (2000, 4000)}
BATCH_WORDS = {"small": 1024, "paper": 512}  # at the paper's size the plain one needs gigabytes


def main(quick: bool) -> dict[str, Any]:
    """Words per second of both trainers, their ratio, and the peak memory of each."""
    found: dict[str, Any] = {}
    for size in ("small",) if quick else ("small", "paper"):
        steps = 3 if quick else {"small": 10, "paper": 3}[size]
        plain = _alone("plain", size, steps)
        for trainer in ("packed", "copying"):
            ours = _alone(trainer, size, steps)
            found[f"{size}: {trainer} against plain"] = {
                "ratio": plain["seconds_per_word"] / ours["seconds_per_word"],
                "ratio_of_processor_time": plain["processor_per_word"] / ours["processor_per_word"],
                "words_per_second": 1 / ours["seconds_per_word"],
                "plain_words_per_second": 1 / plain["seconds_per_word"],
                "peak_memory_mb": ours["peak_memory_mb"],
                "plain_peak_memory_mb": plain["peak_memory_mb"],
            }
    return {"threads": torch.get_num_threads(), "batch_words": BATCH_WORDS, "results": found}


class Clock:
    """Time on the clock and of the processor since it was made."""

    def __init__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def per_word(self, words: int) -> dict[str, float]:
        """Seconds of either kind for one word."""
        seconds, processor = self._started
        return {
            "seconds_per_word": (time.perf_counter() - seconds) / words,
            "processor_per_word": (time.process_time() - processor) / words,
        }


def _alone(trainer: str, size: str, steps: int) -> dict[str, float]:
    """Run a trainer in a process of its own, so that the peak memory is its own."""
    command = [sys.executable, __file__, trainer, size, str(steps)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def _model(size: str, copying: bool = False) -> HRED:
    torch.manual_seed(1)
    words, d_e, d_h, d_s = SIZES[size]
    config = ModelConfig(
        vocabulary_size=words, embedding_size=d_e, query_size=d_h, session_size=d_s, copy=copying
    )
    return HRED(config, Vocabulary(f"w{index}" for index in range(words)))


def _sessions(size: str, count: int = 4000) -> EncodedSessions:
    """Sessions whose numbers of queries and words are spread as in a web log, words by Zipf."""
    rng = np.random.default_rng(1)
    queries = np.minimum(1 + rng.geometric(0.45, count), 20)
    lengths = np.minimum(rng.geometric(0.32, int(queries.sum())), 20) + 1  # with end of query
    weights = 1.0 / np.arange(1, SIZES[size][0] + 1)
    words = rng.choice(len(weights), int(lengths.sum()), p=weights / weights.sum())
    words += len(SPECIAL)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    words[starts[1:] - 1] = END_OF_QUERY
    bounds = np.concatenate([[0], np.cumsum(queries)])
    return EncodedSessions(
        words.astype(np.int32),
        starts,
        bounds[:-1],
        bounds[1:],
        np.arange(count),
        SIZES[size][0] + len(SPECIAL),
    )


def _packed(size: str, steps: int, copying: bool = False) -> dict[str, float]:
    """This package's trainer: the steps of `nextquery train` with the sampled loss."""
    corpus, model = _sessions(size), _model(size, copying)
    for table in (model.word_vectors, model.output_vectors):
        assert table is not None
        table.sparse = True
    likelihood = SessionLikelihood(model, chunk=256)
    optimiser = Optimiser(likelihood, "adam", 1e-3)
    sampler = CandidateSampler(corpus.word_counts(), *HEAD_AND_SAMPLED[size])
    feed = Feed(corpus, Order(1, BATCH_WORDS[size]), sampler)
    batches = feed.epoch(0)[: steps + 1]
    done, clock = 0, Clock()
    for number, step in enumerate(feed.steps(batches, 0, 1)):
        if number == 1:  # the first step makes the optimiser's state
            clock = Clock()
        optimiser.clear()
        total, rows = likelihood(step.batch, step.candidates)
        (-total / len(rows)).backward()
        optimiser.clip(1.0)
        optimiser.step(1e-3)
        done += step.words if number else 0
    return clock.per_word(done)


def _plain(size: str, steps: int) -> dict[str, float]:
    """The plain trainer, on the same sessions and with as many symbols a step on average."""
    corpus, model = _sessions(size), _model(size)
    optimiser = torch.optim.RMSprop(model.parameters(), 1e-3, foreach=False)
    per_batch = round(BATCH_WORDS[size] / corpus.lengths().mean())
    order = np.random.default_rng(1).permutation(len(corpus))
    done, clock = 0, Clock()
    for number in range(steps + 1):
        if number == 1:
            clock = Clock()
        grid = _grid(corpus, order[number * per_batch : (number + 1) * per_batch])
        optimiser.zero_grad()
        loss = _padded_loss(model, torch.from_numpy(grid))
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        done += int((grid != PADDING).sum()) if number else 0
    return clock.per_word(done)


def _grid(corpus: EncodedSessions, members: NDArray[np.int64]) -> NDArray[np.int64]:
    """(sessions, queries, words), padded."""
    sessions = [
        [
            corpus.words[corpus.query_starts[query] : corpus.query_starts[query + 1]]
            for query in range(corpus.session_starts[member], corpus.session_ends[member])
        ]
        for member in members
    ]
    queries = max(len(session) for session in sessions)
    words = max(len(query) for session in sessions for query in session)
    grid = np.full((len(sessions), queries, words), PADDING, dtype=np.int64)
    for row, session in enumerate(sessions):
        for column, query in enumerate(session):
            grid[row, column, : len(query)] = query
    return grid


def _padded_loss(model: HRED, grid: Tensor) -> Tensor:
    """The mean cross entropy of every cell that is no padding; all cells are computed."""
    sessions, queries, words = grid.shape
    flat = grid.reshape(-1, words)  # (sessions x queries, words)
    state = torch.zeros(len(flat), model.config.query_size)
    ends = (flat != PADDING).sum(dim=1).clamp(min=1) - 1
    states = []
    for column in range(words):
        inputs = model.encoder_input(model.word_inputs(flat[:, column]))
        state, _ = model.encoder.step(inputs, state)
        states.append(state)
    vectors = torch.stack(states, dim=1)[torch.arange(len(flat)), ends]
    vectors = vectors.reshape(sessions, queries, -1)
    session = model.start_session(sessions)
    contexts = []
    for query in range(queries):
        contexts.append(session)
        session, _ = model.extend_session(session, vectors[:, query])
    before = torch.stack(contexts, dim=1).reshape(len(flat), -1)
    given = model.session_inputs(before)
    state = model.start_decoder(before, given)
    losses = []
    for column in range(words):
        previous = flat[:, column - 1] if column else None
        if previous is not None:
            state = model.advance_decoder(state, previous, given)
        logits = model.word_scores(model.output_vector(state, previous, given))
        losses.append(
            nn.functional.cross_entropy(
                logits, flat[:, column], ignore_index=PADDING, reduction="sum"
            )
        )
    return torch.stack(losses).sum() / (grid != PADDING).sum()


TRAINERS: dict[str, Callable[[str, int], dict[str, float]]] = {
    "plain": _plain,
    "packed": _packed,
    "copying": partial(_packed, copying=True),
}

if __name__ == "__main__":
    result = TRAINERS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    result["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))
