"""One process that opens a model folder and suggests: how soon, and in how much memory.

    python alone.py MODEL exact|fast

Run by `bench/decode.py`. The contexts are words drawn evenly from the vocabulary, more of them than
people would type, so that what is read of the model is an upper bound.
"""

import json
import random
import sys
import time
from pathlib import Path

from nextquery.guard.guard import Guard
from nextquery.inference.native import give_back, keep_freed_memory
from nextquery.inference.settings import DecodeConfig
from nextquery.suggesters.neural import HREDSuggester

WORDS = 8


def main(folder: Path, mode: str) -> None:
    """Open, suggest 50 times at beam 10, then 10 times at beam 50."""
    keep_freed_memory()
    imported = memory()["process_mb"]
    start, start_cpu = time.perf_counter(), time.process_time()
    guard = Guard.open(folder) if (folder / "guard").is_dir() else Guard()
    config = DecodeConfig(specificity=0.0, mode=mode, min_words=WORDS, max_words=WORDS)  # type: ignore[arg-type]
    suggester = HREDSuggester.load(folder, guard, config)
    give_back()
    loaded, loaded_cpu = time.perf_counter() - start, time.process_time() - start_cpu
    suggest(suggester, 1, config)
    first = time.perf_counter() - start
    suggest(suggester, 50, config)
    at_10 = memory()
    suggest(suggester, 10, config.model_copy(update={"beam": 50}))
    at_50 = memory()
    size = (folder / "model.safetensors").stat().st_size / 1e6
    result = {
        "load_seconds": loaded,
        "load_cpu_seconds": loaded_cpu,
        "first_suggestion_seconds": first,
        "imported_mb": imported,
        "beam_10": at_10,
        "beam_50": at_50,
        "beam_10_process_mb_per_file_mb": at_10["process_mb"] / size,
        "beam_50_process_mb_per_file_mb": at_50["process_mb"] / size,
        "peak_mb_per_file_mb": at_50["peak_mb"] / size,
    }
    print(json.dumps(result))


def suggest(suggester: HREDSuggester, times: int, config: DecodeConfig) -> None:
    """Ask for five suggestions in random contexts of three queries."""
    draw = random.Random(times)
    words = suggester.model.vocabulary.words[3:]
    for _ in range(times):
        context = [" ".join(draw.choices(words, k=3)) for _ in range(3)]
        suggester.suggest(context, 5, config=config)


def memory() -> dict[str, float]:
    """Of this process: all that is resident, its peak, and what no other process could share."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    named = {"process_mb": "VmRSS", "peak_mb": "VmHWM", "private_mb": "RssAnon"}
    return {name: int(status[key].split()[0]) * 1024 / 1e6 for name, key in named.items()}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
