"""Every system of `nextquery experiment` on the made-up log and its control, in one table.

Quality comes from the aggregates that scripts/evidence committed (docs/results/made_up.json and
control.json, five and one HRED models); `measure` adds what the count models cost on the same log
and how large every model is. Made by scripts/leaderboard.
"""

import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.commands import LOG, run
from evidence.tables import RESULTS, ROOT, TITLES, read, table

PAGE = ROOT / "docs" / "leaderboard.md"
COSTS = RESULTS / "leaderboard.json"
COUNT_MODELS = {
    "popularity": "popularity",
    "adj": "adjacency",
    "qvmm": "qvmm",
    "cacb": "cacb",
    "ss": "shortcuts",
}
SIZES = {"embedding_size": 64, "query_size": 128, "session_size": 192}
"""Of the HRED models, as `evidence.commands.PLAIN` has them."""
WORDS = 5000
"""The most words of `tiny`."""
NAMES = {
    "popularity": "popularity",
    "adj": "ADJ",
    "qvmm": "QVMM",
    "cacb": "CACB",
    "ss": "Search Shortcuts",
    "baseline": "Baseline Ranker",
    "baseline_authors": "Baseline Ranker, the authors' features",
    "all": "HRED, session at every step",
    "first": "HRED, the paper's form",
}
FORMS = {"": "", ":per_word": ", per word", ":lift": ", lift", ":sum": ", sum only"}

Document = Mapping[str, Any]


def measure(work: Path) -> None:
    """Fit every count model to the log of the evidence; what is there already is kept."""
    work.mkdir(parents=True, exist_ok=True)
    log, data = work / "log.tsv", work / "data"
    if not log.exists():
        run(["synth", str(log), *LOG])
    if not data.exists():
        run(["prepare", str(log), "--out", str(data), "--no-spelling"])
    costs = {name: _cost(work / name, data, kind) for name, kind in COUNT_MODELS.items()}
    words = len((data / "vocabulary.txt").read_text("utf-8").splitlines())
    COSTS.write_text(json.dumps({"words": words, "count_models": costs}, indent=1) + "\n")


def _cost(folder: Path, data: Path, kind: str) -> dict[str, float]:
    """Processor seconds, since others may use the machine, too; and megabytes."""
    before = os.times()
    run(["fit", str(data), "--kind", kind, "--out", str(folder)])
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"processor_seconds": round(spent, 1), "mb": round(size / 1e6, 1)}


def page() -> str:
    """The page that the committed aggregates give."""
    made_up, control, costs = read("made_up"), read("control"), json.loads(COSTS.read_text())
    sessions = made_up["sessions"]
    return _TEXT.format(
        log=" ".join(LOG),
        background=f"{sessions['background']:,}",
        test=f"{sessions['test']:,}",
        systems=_systems(made_up, control),
        costs=_costs(made_up, costs),
    )


def _systems(made_up: Document, control: Document) -> str:
    found = {name: each for name, each in made_up["scenarios"].items() if "mrr" in each}
    heads = ["system", "seeds", *(f"{TITLES[name]} ({each['cases']['test']:,})"
                                  for name, each in found.items()), "control"]  # fmt: skip
    rows = []
    for system, seeds in _by_form(found["next_query"]["mrr"]).items():
        cells = [[each["mrr"][seed] for seed in seeds] for each in found.values()]
        chance = control["scenarios"]["next_query"]["mrr"]
        random = [value for name, value in chance.items() if _form(name) == system]
        rows.append((cells, [_title(system), str(len(seeds)) if "-" in seeds[0] else "",
                             *map(_shown, cells), _shown(random) if random else ""]))  # fmt: skip
    rows.sort(key=lambda row: -statistics.mean(map(statistics.mean, row[0])))
    return table(heads, [row for _, row in rows])


def _by_form(mrr: Document) -> dict[str, list[str]]:
    """The systems, the seeds of one form together."""
    grouped: dict[str, list[str]] = {}
    for name in mrr:
        grouped.setdefault(_form(name), []).append(name)
    return grouped


def _form(system: str) -> str:
    """A system without its seed.

    >>> _form("baseline+all-3:sum"), _form("first-1"), _form("adj")
    ('baseline+all:sum', 'first', 'adj')
    """
    name, colon, form = system.partition(":")
    stem, _, seed = name.rpartition("-")
    return (stem if seed.isdigit() else name) + colon + form


def _title(system: str) -> str:
    name, colon, form = system.partition(":")
    return " + ".join(NAMES[part] for part in name.split("+")) + FORMS[colon + form]


def _shown(values: Sequence[float]) -> str:
    """The mean over seeds, with the lowest and highest where there are several."""
    mean, low, high = (
        f"{each:.3f}".lstrip("0") for each in (statistics.mean(values), min(values), max(values))
    )
    return mean if len(values) == 1 else f"{mean} ({low}-{high})"


def _costs(made_up: Document, costs: Document) -> str:
    rows = [
        [NAMES[name], f"{each['processor_seconds']:.0f} s of processor time", f"{each['mb']:.1f}"]
        for name, each in costs["count_models"].items()
    ]
    words = min(costs["words"], WORDS) + 3
    for form in ("all", "first"):
        seconds = [each["seconds"] for each in _seeds(made_up["models"], form)]
        minutes = statistics.mean(seconds) / 60
        rows.append([NAMES[form], f"{minutes:.1f} min on 2 cores", f"{_mb(form, words):.1f}"])
    return table(["system", "made in", "size, MB"], rows)


def _seeds(models: Document, form: str) -> Iterator[Any]:
    return (facts for name, facts in models.items() if _form(name) == form)


def _mb(form: str, words: int) -> float:
    """The weights of a model."""
    from nextquery.inference.network.weights import weight_shapes
    from nextquery.model.settings import ModelConfig

    config = ModelConfig.model_validate({**SIZES, "decoder_context": form})
    shapes = weight_shapes(config, words).values()
    return sum(4 * int(rows * (columns[0] if columns else 1)) for rows, *columns in shapes) / 1e6


_TEXT = """# Leaderboard

Every system of `nextquery experiment` on one made-up log (`nextquery synth log.tsv {log}`;
{background} background sessions, {test} test sessions) and on its control, where the same queries
are dealt to sessions at random. `scripts/leaderboard page` writes this page from `docs/results`;
`scripts/evidence made-up WORK`, `scripts/evidence control WORK` and `scripts/leaderboard WORK` make
those numbers. What they mean, with intervals and tests, is in [experiments](experiments.md).

## Quality

MRR of the query that came next among the 20 candidates of its anchor, test cases in brackets, best
system first. For HRED the mean over training seeds, lowest and highest in brackets; every ranker is
trained with three seeds of its own. `+` is a ranker with a model's score as a further feature: its
sum alone, or the sum with the forms per word and lift. In the control nothing can be learnt but how
frequent queries are: there a system should not stand out.

{systems}

To add a system: `nextquery experiment DATA --model NAME=FOLDER`, any object with `score`, or a TREC
run made elsewhere, `--run NAME=FILE`.

## Cost

Count models were fitted on 2 cores that had other work; the time of HRED, three epochs, is what its
training log says. Sizes are those of the folders, for HRED of its weights. A ranker needs its
models and some seconds.

{costs}
"""


def main(argument: str) -> None:
    """Measure under the folder `argument` and write the page; `page` writes it alone."""
    if argument != "page":
        measure(Path(argument))
    PAGE.write_text(page())
