"""How the cost of a suggestion grows with vocabulary, beam and context length.

Random weights at the paper's layer sizes, queries of four words, one thread, CPU time: the
figures are comparable with each other on one machine. `python -m bench.growth OUT.svg` draws them.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from nextquery.guard.guard import Guard
from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_network import HREDNetwork
from nextquery.inference.native import keep_freed_memory
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.model.hred import HRED
from nextquery.model.settings import ModelConfig
from nextquery.text.vocabulary import END_OF_QUERY, Vocabulary

MODES = ("exact", "fast")
SIZES = {"embedding_size": 300, "query_size": 1000, "session_size": 1500}
SMALL = {"embedding_size": 32, "query_size": 64, "session_size": 96}
CONTEXT = ["w1 w2", "w3 w4 w5", "w6"]


def main(quick: bool) -> dict[str, Any]:
    """Measure along each axis with the others at vocabulary 90,000, beam 10, three queries."""
    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return measure(quick)
    finally:
        torch.set_num_threads(before)


def measure(quick: bool) -> dict[str, Any]:
    words = (1_000, 3_000, 9_000) if quick else (10_000, 30_000, 90_000, 150_000)
    beams = (1, 5, 10, 20, 50)
    lengths = (1, 2, 5, 10, 20, 50)
    middle = predictor(words[-1 if quick else -2], quick)
    return {
        "unit": "ms of one processor per suggestion list",
        "vocabulary": {
            mode: {str(size): ms(predictor(size, quick), CONTEXT, 10, mode) for size in words}
            for mode in MODES
        },
        "beam": {
            mode: {str(beam): ms(middle, CONTEXT, beam, mode) for beam in beams} for mode in MODES
        },
        "context": {
            "encode all": {
                str(length): best_ms(lambda n=length: middle.encoder.encode(queries(n)))  # type: ignore[misc]
                for length in lengths
            },
            "extend by one": {str(length): extend_ms(middle, length) for length in lengths},
        },
    }


def predictor(words: int, quick: bool) -> Predictor:
    torch.manual_seed(1)
    config = ModelConfig(vocabulary_size=words, **(SMALL if quick else SIZES))  # type: ignore[arg-type]
    model = HRED(config, Vocabulary(f"w{number}" for number in range(words))).eval()
    with torch.no_grad():
        model.output_matrix[END_OF_QUERY] = 0.0
    network = HREDModel(HREDNetwork(model.config, model.vocabulary, model.arrays()))
    return Predictor(network, Guard())


def queries(count: int) -> list[str]:
    """Different queries of two words."""
    return [f"w{2 * number} w{2 * number + 1}" for number in range(count)]


def ms(asked: Predictor, context: Sequence[str], beam: int, mode: str) -> float:
    config = DecodeConfig(
        mode=mode,  # type: ignore[arg-type]
        beam=beam,
        min_words=4,
        max_words=4,
        fold=False,
        specificity=0.0,
    )
    state = asked.encoder.encode(context)
    return best_ms(lambda: asked.suggest_many([state], min(beam, 5), config))


def extend_ms(asked: Predictor, length: int) -> float:
    """One more query to a session of `length - 1`."""
    state = asked.encoder.encode(queries(length - 1))
    return best_ms(lambda: asked.encoder.extend(state, "w1 w2"))


def best_ms(run: Callable[[], Any], rounds: int = 5) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        run()
        best = min(best, 1000 * (time.process_time() - start))
    return best


def draw(result: dict[str, Any], path: Path) -> None:
    """Three panels, one an axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    titles = {
        "vocabulary": "thousand words in the vocabulary",
        "beam": "beam",
        "context": "queries in the session",
    }
    for axes, (axis, title) in zip(panels, titles.items(), strict=True):
        scale = 1000 if axis == "vocabulary" else 1
        for name, points in result[axis].items():
            axes.plot(
                [int(x) / scale for x in points], list(points.values()), marker="o", label=name
            )
        axes.set_xlabel(title)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    panels[0].set_ylabel("ms of one processor")
    panels[0].set_title("decoding: linear in the vocabulary", fontsize=10)
    panels[1].set_title("decoding: linear in the beam", fontsize=10)
    panels[2].set_title("encoding: constant with kept states", fontsize=10)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw(main(quick=False), Path(sys.argv[1]))
