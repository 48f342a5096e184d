"""Decoding against plain PyTorch at the paper's size: ratios within one run, the same weights.

The plain version is what one would write first: HRED's own steps, log-softmax over the vocabulary,
a flat top-k over beam times vocabulary. Queries of random weights do not end, so that every search
takes the same number of steps. What is compared is the list of suggestions.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextState
from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_network import HREDMemory, HREDNetwork
from nextquery.inference.native import keep_freed_memory
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.model.hred import HRED
from nextquery.model.settings import WEIGHTS, ModelConfig
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, UNKNOWN, Vocabulary

Times = dict[str, float]
State = ContextState[HREDMemory]

WORDS = 8
"""Words of every suggestion, so that a search takes nine steps."""


def main(quick: bool) -> dict[str, Any]:
    """Time plain, exact and fast decoding, rescoring, throughput, loading and worst cases."""
    keep_freed_memory()
    sizes = (20_000, 64, 128, 192) if quick else (90_000, 300, 1000, 1500)
    rounds = 3 if quick else 7
    model = random_model(*sizes)
    predictor = predictor_of(model)
    contexts = [[f"w{5 * i + j} w{7 * i + j}" for j in range(3)] for i in range(3 if quick else 8)]
    states = predictor.encoder.encode_many(contexts)
    return {
        "size": dict(zip(("words", "embedding", "query", "session"), sizes, strict=True)),
        "threads": torch.get_num_threads(),
        "beam_50": decoding(model, predictor, states, 50, rounds),
        "beam_10": decoding(model, predictor, states, 10, rounds),
        "rescoring": rescoring(model, predictor, states[0], rounds),
        "throughput": throughput(predictor, states, rounds),
        "loading": loading(model),
        "worst_case": worst_case(rounds),
    }


def random_model(
    words: int, embedding: int, query: int, session: int, *, copying: bool = False
) -> HRED:
    torch.manual_seed(1)
    config = ModelConfig(
        vocabulary_size=words,
        embedding_size=embedding,
        query_size=query,
        session_size=session,
        copy=copying,
    )
    model = HRED(config, Vocabulary(f"w{number}" for number in range(words))).eval()
    with torch.no_grad():
        model.output_matrix.mul_(3.0)  # as sharp as a trained model
        model.output_matrix[END_OF_QUERY] = 0.0
    return model


def predictor_of(model: HRED) -> Predictor:
    """The same weights as they are served."""
    return Predictor(
        HREDModel(HREDNetwork(model.config, model.vocabulary, model.arrays())), Guard()
    )


@torch.inference_mode()
def plain_search(model: HRED, state: State, beam: int) -> list[tuple[int, ...]]:
    """The k best queries of exactly `WORDS` words."""
    session_state = torch.from_numpy(state.memory.session_state)[None]
    session = model.session_inputs(session_state)
    hidden = model.start_decoder(session_state, session)
    totals, words, prefixes = torch.zeros(1), None, torch.zeros((1, 0), dtype=torch.long)
    for _ in range(WORDS):
        logits = model.word_scores(model.output_vector(hidden, words, session))
        logits[:, [PADDING, UNKNOWN, END_OF_QUERY]] = -torch.inf
        total = totals[:, None] + logits.log_softmax(dim=1)
        totals, flat_indices = total.flatten().topk(beam)
        parents, words = flat_indices // len(model.vocabulary), flat_indices % len(model.vocabulary)
        prefixes = torch.cat([prefixes[parents], words[:, None]], dim=1)
        session = session.take(parents)
        hidden = model.advance_decoder(hidden[parents], words, session)
    logits = model.word_scores(model.output_vector(hidden, words, session))
    totals = totals + logits.log_softmax(dim=1)[:, END_OF_QUERY]
    return [tuple(prefixes[row].tolist()) for row in totals.argsort(descending=True).tolist()]


def decoding(
    model: HRED,
    predictor: Predictor,
    states: list[State],
    beam: int,
    rounds: int,
) -> dict[str, Any]:
    base = DecodeConfig(specificity=0.0, beam=beam, min_words=WORDS, max_words=WORDS, fold=False)
    configs = {mode: base.model_copy(update={"mode": mode}) for mode in ("exact", "fast")}
    lists: dict[str, list[list[str]]] = {"plain": [], "exact": [], "fast": []}
    runs: dict[str, Callable[[State], list[str]]] = {
        "plain": lambda state: [
            model.vocabulary.decode(words) for words in plain_search(model, state, beam)
        ],
        **{
            mode: lambda state, config=config: [  # type: ignore[misc]
                suggestion.text for suggestion in predictor.suggest_many([state], beam, config)[0]
            ]
            for mode, config in configs.items()
        },
    }
    for name, run in runs.items():
        lists[name] = [run(state) for state in states]
    ms, cpu = timed(
        {name: lambda run=run: run(states[0]) for name, run in runs.items()},  # type: ignore[misc]
        rounds,
    )
    return {
        **{f"{name}_ms": value for name, value in ms.items()},
        **{f"{mode}_times_faster": ms["plain"] / ms[mode] for mode in configs},
        **{f"{mode}_times_less_cpu": cpu["plain"] / cpu[mode] for mode in configs},
        **{f"{mode}_same_top_10": overlap(lists["plain"], lists[mode], 10) for mode in configs},
        "exact_lists_identical": lists["plain"] == lists["exact"],
    }


def overlap(one: list[list[str]], other: list[list[str]], count: int) -> float:
    shares = [
        len(set(a[:count]) & set(b[:count])) / max(1, len(a[:count]))
        for a, b in zip(one, other, strict=True)
    ]
    return statistics.fmean(shares)


def rescoring(model: HRED, predictor: Predictor, state: State, rounds: int) -> dict[str, Any]:
    candidates = [f"w{i} w{i * 3} w{i * 7}" for i in range(1, 21)]
    queries = list(state.queries)
    ms, cpu = timed(
        {
            "one_by_one": lambda: [plain_score(model, queries, c) for c in candidates],
            "together": lambda: predictor.score_many(
                [predictor.encoder.encode(queries)], [candidates]
            ),
        },
        rounds,
    )
    return {
        **{f"{name}_ms": value for name, value in ms.items()},
        "times_faster": ms["one_by_one"] / ms["together"],
        "times_less_cpu": cpu["one_by_one"] / cpu["together"],
    }


@torch.inference_mode()
def plain_state(model: HRED, queries: list[str]) -> torch.Tensor:
    """The session state (1, d_s), query by query."""
    state = model.start_session()
    for query in queries:
        words = torch.tensor([model.vocabulary.encode(query)])
        vector, _ = model.encode_queries(words, torch.tensor([words.shape[1]]))
        state, _ = model.extend_session(state, vector)
    return state


@torch.inference_mode()
def plain_score(model: HRED, queries: list[str], candidate: str) -> float:
    """The likelihood of one candidate, word by word, its context included."""
    state = plain_state(model, queries)
    session = model.session_inputs(state)
    hidden, last, total = model.start_decoder(state, session), None, 0.0
    for word in model.vocabulary.encode(candidate):
        logits = model.word_scores(model.output_vector(hidden, last, session))
        logits[:, PADDING] = -torch.inf
        total += float(logits.log_softmax(dim=1)[0, word])
        last = torch.tensor([word])
        hidden = model.advance_decoder(hidden, last, session)
    return total


def throughput(predictor: Predictor, states: list[State], rounds: int) -> dict[str, Any]:
    config = DecodeConfig(
        specificity=0.0, beam=10, min_words=WORDS, max_words=WORDS, fold=False, mode="fast"
    )
    many = (states * 16)[:16]
    ms, cpu = timed(
        {
            "alone": lambda: [predictor.suggest_many([state], 5, config) for state in many],
            "together": lambda: predictor.suggest_many(many, 5, config),
        },
        min(rounds, 3),
    )
    return {
        "contexts": len(many),
        "alone_per_second": 1000 * len(many) / ms["alone"],
        "together_per_second": 1000 * len(many) / ms["together"],
        "times_faster": ms["alone"] / ms["together"],
        "times_less_cpu": cpu["alone"] / cpu["together"],
    }


def worst_case(rounds: int) -> dict[str, Any]:
    """The most expensive accepted contexts against an ordinary one, `small` with copying.

    Encoding and a list of five; CPU time and ratios within one run.
    """
    predictor = predictor_of(random_model(20_000, 128, 256, 384, copying=True))
    letters = [" ".join(chr(97 + (q + n) % 26) for n in range(30)) for q in range(60)]
    numbers = [" ".join(str(140 * q + n) for n in range(140))[:512] for q in range(100)]
    contexts = {
        "ordinary": [["w1 w2", "w3 w4 w5", "w6"]],
        "60_queries_of_30_letters": [letters],
        "100_queries_of_512_characters": [numbers],
        "four_of_these_together": [numbers] * 4,
    }
    config = DecodeConfig(max_words=6)
    runs: dict[str, Callable[[], Any]] = {
        name: lambda many=many: predictor.suggest_many(  # type: ignore[misc]
            predictor.encoder.encode_many(many), 5, config
        )
        for name, many in contexts.items()
    }
    _, cpu = timed(runs, rounds)
    ordinary = cpu["ordinary"]
    return {name: {"cpu_ms": ms, "times_ordinary": ms / ordinary} for name, ms in cpu.items()}


def loading(model: HRED) -> dict[str, Any]:
    """Seconds from a folder to the first suggestion, and the memory of a process that serves."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        model.save_pretrained(folder)
        return {
            "file_mb": (folder / WEIGHTS).stat().st_size / 1e6,
            **{mode: _served(folder, mode) for mode in ("exact", "fast")},
        }


def _served(folder: Path, mode: str) -> dict[str, float]:
    """What `serving/alone.py` prints: a process that has imported only what it needs."""
    command = [
        sys.executable,
        str(Path(__file__).parent / "serving" / "alone.py"),
        str(folder),
        mode,
    ]
    printed = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(printed.stdout))


def timed(runs: dict[str, Callable[[], Any]], rounds: int) -> tuple[Times, Times]:
    """The best wall time and the best CPU time of each, in milliseconds.

    The runs take turns, so that all meet the same load; on a busy machine the processor's time,
    with one thread, is the fairer measure.
    """
    wall, cpu = dict.fromkeys(runs, float("inf")), dict.fromkeys(runs, float("inf"))
    for _ in range(rounds + 1):
        for name, run in runs.items():
            start, start_cpu = time.perf_counter(), time.process_time()
            run()
            wall[name] = min(wall[name], 1000 * (time.perf_counter() - start))
            cpu[name] = min(cpu[name], 1000 * (time.process_time() - start_cpu))
    return wall, cpu
