"""What one list costs: our engine against plain PyTorch on the same trained model, in one run.

The model is that of `NEXTQUERY_BENCH_MODEL` (its data folder `NEXTQUERY_BENCH_DATA` gives the
sessions), or one trained on a synthetic log. Plain PyTorch is what one would write first: its own
steps, one context, log-softmax over the vocabulary, a flat top-k, finished queries removed. All
times are milliseconds per list, the mean over contexts of the least of some runs: `_ms` of the
processor, `_wall_ms` by the clock. `default_*` has the settings that nobody changed;
`default_first` is the mean over contexts that were not asked about before.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.decode import plain_score
from nextquery.inference.native import keep_freed_memory, native_library
from nextquery.inference.settings import DecodeConfig
from nextquery.logs.data_folder import PreparedData
from nextquery.model.hred import HRED
from nextquery.suggesters.loading import load
from nextquery.suggesters.neural import HREDSuggester
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, UNKNOWN

BEAM = 10
COLD = """
import sys, time
from nextquery import load
load(sys.argv[1]).suggest(["free music"], 5)
status = open("/proc/self/status").read()  # what `getrusage` says is the parent's
print(time.process_time(), int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


@dataclass(frozen=True)
class Cases:
    """Sessions without their last query, and that query."""

    contexts: list[tuple[str, ...]]
    following: list[str]


def model_and_data(folder: Path) -> tuple[Path, Path]:
    """The folders named by the environment, or new ones of a synthetic log."""
    model, data = (os.environ.get(f"NEXTQUERY_BENCH_{name}") for name in ("MODEL", "DATA"))
    if model and data:
        return Path(model), Path(data)
    log, data, model = (str(folder / name) for name in ("log.tsv", "data", "model"))
    for command in (
        ["synth", log, "--sessions", "4000", "--seed", "1"],
        ["prepare", log, "--out", data, "--no-spelling"],
        ["train", data, "--out", model, "--config", "tiny", "--set", "train.epochs=2"],
    ):
        subprocess.run([sys.executable, "-m", "nextquery", *command], check=True, stdout=sys.stderr)
    return Path(model), Path(data)


def validation_cases(data: PreparedData, most: int) -> Cases:
    """At most `count` validation sessions, evenly spread over time."""
    sessions = [session.queries for session in data.sessions("validation")]
    chosen = sessions[:: max(1, len(sessions) // most)][:most]
    return Cases([queries[:-1] for queries in chosen], [queries[-1] for queries in chosen])


def main(quick: bool) -> dict[str, Any]:
    """Lists alone and together, scores, completions, a cold start."""
    keep_freed_memory()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder, data = model_and_data(Path(temporary))
        suggester = load(folder)
        assert isinstance(suggester, HREDSuggester)
        contexts = validation_cases(PreparedData(data), 16).contexts
        library = native_library()
        return {
            "words": len(suggester.model.vocabulary),
            "copying": suggester.network.config.copying,
            "kernels": "numpy" if library is None else library.instructions().decode(),
            "default_first_ms": first_lists(suggester, data),
            **lists(suggester, HRED.from_pretrained(folder), contexts, 4 if quick else 12),
            **scores(suggester, HRED.from_pretrained(folder), contexts[0]),
            **completions(suggester, contexts[0]),
            **cold_start(folder),
        }


TWENTY = [f"{first} {second}" for first in ("free", "cheap", "new", "old") for second in "abcde"]


def lists(
    suggester: HREDSuggester, model: HRED, contexts: Sequence[Sequence[str]], rounds: int
) -> dict[str, float]:
    """Milliseconds per list with the session's state kept, and the ratios."""
    states = suggester.encode_many(contexts)
    configs = {
        mode: DecodeConfig(specificity=0.0, known="free", beam=BEAM, mode=mode)
        for mode in ("exact", "fast")
    }
    together: dict[str, list[Callable[[], Any]]] = {
        f"{mode}_together": [partial(suggester.suggest_after, states, BEAM, config=config)]
        for mode, config in configs.items()
    }
    runs: dict[str, list[Callable[[], Any]]] = {
        "plain": [
            partial(plain_search, model, torch.from_numpy(state.memory.session_state)[None])
            for state in states
        ],
        **{
            f"{mode}_alone": [
                partial(suggester.suggest_after, [state], BEAM, config=config) for state in states
            ]
            for mode, config in configs.items()
        },
        **together,
        "default_alone": [partial(suggester.suggest_after, [state], 5) for state in states],
        "default_together": [lambda: suggester.suggest_after(states, 5)],
    }
    # The least of each list, not of all: on a busy machine none of the rounds is undisturbed.
    ms = {
        name: [
            sum(times) / len(states)
            for times in zip(*(least(run, rounds) for run in repeated), strict=True)
        ]
        for name, repeated in runs.items()
    }
    return {
        **{f"{name}_ms": cpu for name, (_, cpu) in ms.items()},
        **{f"{name}_wall_ms": wall for name, (wall, _) in ms.items()},
        **{f"{name}_times_less": ms["plain"][1] / cpu for name, (_, cpu) in ms.items()},
        **{f"{name}_times_faster": ms["plain"][0] / wall for name, (wall, _) in ms.items()},
    }


def first_lists(suggester: HREDSuggester, data: Path) -> float:
    """Processor milliseconds of a list with the default settings after a context that is new."""
    contexts = validation_cases(PreparedData(data), 80).contexts[16:]
    states = suggester.encode_many(contexts)
    start = time.process_time()
    for state in states:
        suggester.suggest_after([state], 5)
    return 1000 * (time.process_time() - start) / len(states)


def scores(suggester: HREDSuggester, model: HRED, context: Sequence[str]) -> dict[str, float]:
    """20 candidates together, and one by one with plain PyTorch."""
    wall, cpu = least(lambda: suggester.score(context, TWENTY), 5)
    plain_wall, plain_cpu = least(
        lambda: [plain_score(model, list(context), text) for text in TWENTY], 3
    )
    return {
        "score_20_ms": cpu,
        "score_20_wall_ms": wall,
        "score_20_times_less": plain_cpu / cpu,
        "score_20_times_faster": plain_wall / wall,
    }


def completions(suggester: HREDSuggester, context: Sequence[str]) -> dict[str, float]:
    """Five completions after each keystroke of a word: the mean over the keystrokes."""
    typed = ["l", "lo", "lou", "loui", "louis"]
    wall, cpu = least(lambda: [suggester.complete(context, text, 5) for text in typed], 5)
    return {"complete_ms": cpu / len(typed), "complete_wall_ms": wall / len(typed)}


@torch.inference_mode()
def plain_search(model: HRED, session_state: torch.Tensor, most: int = 10) -> list[tuple[int, ...]]:
    """Beam search without copying, guard or any care for speed."""
    session = model.session_inputs(session_state)
    hidden = model.start_decoder(session_state, session)
    totals, last, prefixes = torch.zeros(1), None, [()]
    finished: list[tuple[float, tuple[int, ...]]] = []
    for _ in range(most + 1):
        logits = model.word_scores(model.output_vector(hidden, last, session))
        logits[:, [PADDING, UNKNOWN]] = -torch.inf
        total = totals[:, None] + logits.log_softmax(dim=1)
        ends = total[:, END_OF_QUERY].tolist()
        finished += [(end, words) for end, words in zip(ends, prefixes, strict=True) if words]
        total[:, END_OF_QUERY] = -torch.inf
        totals, flat_indices = total.flatten().topk(BEAM)
        best = sorted((value for value, _ in finished), reverse=True)
        if len(best) >= BEAM and best[BEAM - 1] >= float(totals[0]):
            break
        parents, last = flat_indices // len(model.vocabulary), flat_indices % len(model.vocabulary)
        prefixes = [
            (*prefixes[parent], word)
            for parent, word in zip(parents.tolist(), last.tolist(), strict=True)
        ]
        session = session.take(parents)
        hidden = model.advance_decoder(hidden[parents], last, session)
    return [words for _, words in sorted(finished, reverse=True)[:BEAM]]


def least(run: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The least time of a run in milliseconds, by the clock and of the processor, once warm."""
    run()
    walls, cpus = [], []
    for _ in range(rounds):
        start, start_cpu = time.perf_counter(), time.process_time()
        run()
        walls.append(1000 * (time.perf_counter() - start))
        cpus.append(1000 * (time.process_time() - start_cpu))
    return min(walls), min(cpus)


def cold_start(folder: Path) -> dict[str, float]:
    """CPU seconds and megabytes of a process that opens the model and suggests once."""
    command = [sys.executable, "-c", COLD, str(folder)]
    walls = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        walls.append(time.perf_counter() - start)
    printed = done.stdout.split()
    return {
        "cold_start_seconds": min(walls),
        "cold_start_cpu_seconds": float(printed[0]),
        "process_mb": float(printed[1]),
    }
