"""Training speed: this trainer against two others, at the same model size, in one run.

The plain trainer is what one writes first: shuffled sessions padded to a grid of (sessions,
queries, words), the full cross entropy over all of it, dense RMSProp. The good one is what one
writes next: sessions of one length together, their queries flattened and those of one length
encoded and decoded together without padding, the full cross entropy over the real symbols, fused
Adam. All compute in float32 on the CPU with the same threads; the rate is that of real symbols,
padding not counted. On a busy machine the ratio of CPU times says more than that of times on
the clock.

`share_of_limit` is the CPU time that the arithmetic of a step (`operations`) would take at
the rate at which the machine multiplies large matrices by its best library, over that of the step;
`limit_words_per_second` is what that rate would allow a core. `configured` is this trainer with the
model settings of the shipped config (for `small`: copying, tied vectors, dropout, the session at
every step). A trainer that fails has its last message instead of figures.
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

from nextquery.config import load_config
from nextquery.model.hred import HRED
from nextquery.model.likelihood import CandidateSampler, SessionLikelihood
from nextquery.model.recurrence import times_transposed
from nextquery.model.settings import ModelConfig, RunConfig
from nextquery.text.batching import cut
from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, SPECIAL, Vocabulary
from nextquery.training.optimiser import Optimiser
from nextquery.training.trainer import Feed, TrainingStep

SIZES = {"small": (20_000, 128, 256, 384), "paper": (90_000, 300, 1000, 1500)}
HEAD_AND_SAMPLED = {"small": (1000, 2000), "paper": (2000, 4000)}
BATCH_WORDS = {"small": 512, "paper": 1024}  # as in configs/
WARM_UP = 3
Measured = dict[str, float | str]
STEPS = {"plain": {"small": 10, "paper": 10}, "good": {"small": 15, "paper": 10}}
"""Timed steps; ours take twice those of the good one."""
OURS = {"small": ("packed", "copying", "configured"), "paper": ("packed", "copying")}
PLAIN_BATCH_WORDS = {"small": 512, "paper": 128}  # at the paper's size it needs gigabytes


def main(quick: bool) -> dict[str, Any]:
    """Words per second of all trainers, ratios, and the peak memory of each."""
    results: dict[str, Any] = {}
    for size in ("small",) if quick else ("small", "paper"):
        compared = {name: _alone(name, size, 3 if quick else STEPS[name][size]) for name in STEPS}
        for name, other in compared.items():
            results[f"{size}: {name}"] = _figures(other)
        for trainer in OURS[size]:
            ours = _alone(trainer, size, 3 if quick else 2 * STEPS["good"][size])
            results[f"{size}: {trainer}"] = _figures(ours) | _ratios(ours, compared)
    return {
        "threads": torch.get_num_threads(),
        "batch_words": BATCH_WORDS,
        "warm_up_steps": WARM_UP,
        "results": results,
    }


def _ratios(ours: Measured, compared: dict[str, Measured]) -> dict[str, float]:
    """How many times less this trainer takes than the others, of those that ran."""
    units = (("ratio", "seconds_per_word"), ("processor_ratio", "processor_per_word"))
    return {
        f"{kind}_against_{name}": float(other[unit]) / float(ours[unit])
        for name, other in compared.items()
        for kind, unit in units
        if "failed" not in ours and "failed" not in other
    }


def _figures(measured: Measured) -> Measured:
    if "failed" in measured:
        return measured
    values = {name: float(value) for name, value in measured.items()}
    figures: Measured = {
        "steps": values["steps"],
        "words_per_second": 1 / values["seconds_per_word"],
        "words_per_processor_second": 1 / values["processor_per_word"],
        "peak_memory_mb": values["peak_memory_mb"],
    }
    if "operations_per_word" in values:
        possible = values["operations_per_second"] / values["operations_per_word"]
        figures["limit_words_per_second"] = possible
        figures["share_of_limit"] = 1 / values["processor_per_word"] / possible
        figures["limit_gflops"] = values["operations_per_second"] / 1e9
    return figures


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


def _alone(trainer: str, size: str, steps: int) -> Measured:
    """Run a trainer in a process of its own, so that the peak memory is its own."""
    command = [sys.executable, __file__, trainer, size, str(steps)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        return {"failed": last[0] if last else f"ended with code {done.returncode}"}
    return dict(json.loads(done.stdout)) | {"steps": steps}


def _model(size: str, copying: bool = False, configured: bool = False) -> HRED:
    torch.manual_seed(1)
    words, d_e, d_h, d_s = SIZES[size]
    sizes = {
        "vocabulary_size": words,
        "embedding_size": d_e,
        "query_size": d_h,
        "session_size": d_s,
    }
    config = ModelConfig.model_validate(sizes | {"copy": copying})
    if configured:
        shipped = load_config(RunConfig, size).model
        assert isinstance(shipped, ModelConfig)
        config = shipped
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


def _packed(
    size: str, steps: int, copying: bool = False, configured: bool = False
) -> dict[str, float]:
    """This package's trainer: the steps of `nextquery train` with the sampled loss."""
    corpus, model = _sessions(size), _model(size, copying, configured)
    for table in (model.word_vectors, model.output_vectors):
        assert table is not None
        table.sparse = True
    likelihood = SessionLikelihood(model, chunk=256)
    optimiser = Optimiser(likelihood, "adam", 1e-3)
    sampler = CandidateSampler(corpus.word_counts(), *HEAD_AND_SAMPLED[size])
    feed = Feed(corpus, 1, BATCH_WORDS[size], sampler=sampler)
    batches = feed.epoch(0)[: steps + WARM_UP]
    done, needed, clock = 0, 0.0, Clock()
    for number, step in enumerate(feed.steps(batches, 0, 1)):
        if number == WARM_UP:  # the first steps make the optimiser's state and machine code
            clock = Clock()
        optimiser.clear()
        total, rows = likelihood(step.batch, step.candidates)
        (-total / len(rows)).backward()
        optimiser.clip(1.0)
        optimiser.step(1e-3)
        if number >= WARM_UP:
            done += step.words
            needed += operations(model.config, step)
    return clock.per_word(done) | {
        "operations_per_word": needed / done,
        "operations_per_second": best_rate(),
    }


def operations(config: ModelConfig, step: TrainingStep) -> float:
    """Additions and multiplications of a step's matrix products, forward and backward."""
    batch, candidates = step.batch, step.candidates
    assert candidates is not None
    e, h, s = config.embedding_size, config.query_size, config.session_size
    recurrence = 3 * e * h + 3 * h * h
    products = (
        len(batch.encoder_words) * recurrence
        + len(batch.decoder_words) * (recurrence + e * e)
        + len(batch.query_ends) * (3 * h * s + 3 * s * s)
        + len(batch.contexts) * s * h
        + len(batch.targets) * (h * e + len(candidates.words) * e)
    )
    if config.decoder_context != "first":
        products += len(batch.contexts) * s * e
    if config.decoder_context == "all":
        products += len(batch.contexts) * s * 3 * h
    if config.copying:
        (sessions, sources), targets = batch.copies.sources.shape, batch.copies.targets.shape[1]
        products += sessions * sources * (h * h + 2 * targets * h)
        products += len(batch.targets) * ((h + e) * h + h * e)
    return 6.0 * products  # a product and its two gradients, each an addition and a multiplication


def best_rate(size: int = 2048) -> float:
    """Operations per processor second of a product of large matrices, by the quicker library."""
    left, right = torch.randn(size, size), torch.randn(size, size)
    rates = []
    for product in (times_transposed, torch.matmul):
        for _ in range(3):
            start = time.process_time()
            product(left, right)
            rates.append(2.0 * size**3 / (time.process_time() - start))
    return max(rates)


def _plain(size: str, steps: int) -> dict[str, float]:
    """The plain trainer, on the same sessions."""
    corpus, model = _sessions(size), _model(size)
    optimiser = torch.optim.RMSprop(model.parameters(), 1e-3, foreach=False)
    per_batch = round(PLAIN_BATCH_WORDS[size] / corpus.lengths().mean())
    order = np.random.default_rng(1).permutation(len(corpus))
    done, clock = 0, Clock()
    for number in range(steps + WARM_UP):
        if number == WARM_UP:
            clock = Clock()
        grid = _grid(corpus, order[number * per_batch : (number + 1) * per_batch])
        optimiser.zero_grad()
        loss = _padded_loss(model, torch.from_numpy(grid))
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        done += int((grid != PADDING).sum()) if number >= WARM_UP else 0
    return clock.per_word(done)


def _good(size: str, steps: int) -> dict[str, float]:
    """The good plain trainer, on the same sessions and with as many symbols a step."""
    corpus, model = _sessions(size), _model(size)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    by_length = np.lexsort((corpus.lengths(), corpus.queries()))
    batches = list(cut(by_length, corpus.lengths(), BATCH_WORDS[size]))
    chosen = np.random.default_rng(1).permutation(len(batches))[: steps + WARM_UP]
    done, clock = 0, Clock()
    for number, batch in enumerate(chosen):
        if number == WARM_UP:
            clock = Clock()
        optimiser.zero_grad()
        total, words = _bucketed_loss(model, corpus, batches[batch])
        (total / words).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        done += words if number >= WARM_UP else 0
    return clock.per_word(done)


def _bucketed_loss(
    model: HRED, corpus: EncodedSessions, members: NDArray[np.int64]
) -> tuple[Tensor, int]:
    """The summed cross entropy of sessions, queries of one length together, and the symbols."""
    sizes = [int(corpus.session_ends[member] - corpus.session_starts[member]) for member in members]
    queries = np.concatenate(
        [
            np.arange(corpus.session_starts[member], corpus.session_ends[member])
            for member in members
        ]
    )
    starts = corpus.query_starts[queries]
    lengths = corpus.query_starts[queries + 1] - starts
    buckets = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    words = [
        torch.from_numpy(corpus.words[starts[b][:, None] + np.arange(lengths[b[0]])]).long()
        for b in buckets
    ]
    order = torch.from_numpy(np.argsort(np.concatenate(buckets), kind="stable"))
    vectors = torch.cat([_last_states(model, word_bucket) for word_bucket in words])[order]
    # Of one length, but where one length ends and the next begins.
    padded = nn.utils.rnn.pad_sequence(list(torch.split(vectors, sizes)), batch_first=True)
    contexts = []
    carried = model.start_session(len(sizes))
    for query in range(padded.shape[1]):
        contexts.append(carried)
        carried, _ = model.extend_session(carried, padded[:, query])
    stacked = torch.stack(contexts, dim=1)
    before = torch.cat([stacked[row, :size] for row, size in enumerate(sizes)])
    losses = [
        _bucket_loss(model, word_bucket, before[torch.from_numpy(bucket)])
        for word_bucket, bucket in zip(words, buckets, strict=True)
    ]
    return torch.stack(losses).sum(), int(lengths.sum())


def _last_states(model: HRED, words: Tensor) -> Tensor:
    """The vectors of queries of one length (queries, words)."""
    state = torch.zeros(len(words), model.config.query_size)
    inputs = model.encoder_input(model.word_inputs(words))
    for column in range(words.shape[1]):
        state, _ = model.encoder.step(inputs[:, column], state)
    return state


def _bucket_loss(model: HRED, words: Tensor, contexts: Tensor) -> Tensor:
    inputs = model.session_inputs(contexts)
    state = model.start_decoder(contexts, inputs)
    omegas = [model.output_vector(state, None, inputs)]
    for column in range(words.shape[1] - 1):
        state = model.advance_decoder(state, words[:, column], inputs)
        omegas.append(model.output_vector(state, words[:, column], inputs))
    scores = model.word_scores(torch.cat(omegas))
    return nn.functional.cross_entropy(scores, words.t().reshape(-1), reduction="sum")


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
    """The mean cross entropy of every cell that is not padding; all cells are computed."""
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
    decoder_inputs = model.session_inputs(before)
    state = model.start_decoder(before, decoder_inputs)
    losses = []
    for column in range(words):
        previous = flat[:, column - 1] if column else None
        if previous is not None:
            state = model.advance_decoder(state, previous, decoder_inputs)
        logits = model.word_scores(model.output_vector(state, previous, decoder_inputs))
        losses.append(
            nn.functional.cross_entropy(
                logits, flat[:, column], ignore_index=PADDING, reduction="sum"
            )
        )
    return torch.stack(losses).sum() / (grid != PADDING).sum()


TRAINERS: dict[str, Callable[[str, int], dict[str, float]]] = {
    "plain": _plain,
    "good": _good,
    "packed": _packed,
    "copying": partial(_packed, copying=True),
    "configured": partial(_packed, configured=True),
}

if __name__ == "__main__":
    result = TRAINERS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    result["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))
