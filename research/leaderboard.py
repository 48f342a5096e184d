"""docs/results/leaderboard.md: every system of `nextquery experiment` on synthetic logs, in tables.

Three small logs with every form of model are run by `leaderboard_runs.py` (docs/results/
leaderboard.json); a log ten times as large comes from the aggregates of `python -m research`
(docs/results/synthetic.json and control.json). Made by python -m research leaderboard.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from research.commands import LOG
from research.leaderboard_runs import FORMS as TRAINED_FORMS
from research.leaderboard_runs import measure_all
from research.tables import RESULTS, ROOT, TITLES, read, table

PAGE = ROOT / "docs" / "results" / "leaderboard.md"
COSTS = RESULTS / "leaderboard.json"
SIZES = {"embedding_size": 64, "query_size": 128, "session_size": 192}
"""Sizes of the HRED models, as in `research.commands.PLAIN`."""
WORDS = 5000
"""Vocabulary limit of `tiny`."""
NAMES = {
    "popularity": "popularity",
    "adj": "ADJ",
    "qvmm": "QVMM",
    "cacb": "CACB",
    "ss": "Search Shortcuts",
    "baseline": "Baseline Ranker",
    "baseline_authors": "Baseline Ranker, the authors' features",
    "copying": "HRED with copying",
    "plain": "HRED without copying",
    "all": "HRED, session at every step",
    "first": "HRED, the paper's form",
}
LOGS = {"first": "first log", "second": "second log", "control": "control"}
_SPLITS = ("background", "test")
FORMS = {"": "", ":per_word": ", per word", ":lift": ", lift", ":sum": ", sum only"}

Document = Mapping[str, Any]


def measure(work: Path) -> None:
    """Run the small logs; finished steps are kept."""
    kept = json.loads(COSTS.read_text())
    COSTS.write_text(json.dumps({**kept, "small": measure_all(work)}, indent=1) + "\n")


def page() -> str:
    """The page as the JSON files give it."""
    synthetic, control, costs = read("synthetic"), read("control"), json.loads(COSTS.read_text())
    sessions = synthetic["sessions"]
    return _TEXT.format(
        log=" ".join(LOG),
        background=f"{sessions['background']:,}",
        test=f"{sessions['test']:,}",
        systems=_systems(synthetic, control),
        copying=", ".join(TRAINED_FORMS["copying"]),
        plain=", ".join(TRAINED_FORMS["plain"]),
        small_logs=_small_logs(costs["small"]),
        small_systems=_small_systems(costs["small"]),
        small_costs=_small_costs(costs["small"]),
        costs=_costs(synthetic, costs),
    )


def _systems(synthetic: Document, control: Document) -> str:
    scenarios = {name: item for name, item in synthetic["scenarios"].items() if "mrr" in item}
    heads = ["system", "seeds", *(f"{TITLES[name]} ({scenario['cases']['test']:,})"
                                  for name, scenario in scenarios.items()), "control"]  # fmt: skip
    rows = []
    for system, seeds in _by_form(scenarios["next_query"]["mrr"]).items():
        cells = [[scenario["mrr"][seed] for seed in seeds] for scenario in scenarios.values()]
        chance = control["scenarios"]["next_query"]["mrr"]
        random = [value for name, value in chance.items() if _form(name) == system]
        rows.append((cells, [_title(system), str(len(seeds)) if "-" in seeds[0] else "",
                             *map(_shown, cells), _shown(random) if random else ""]))  # fmt: skip
    rows.sort(key=lambda row: -statistics.mean(map(statistics.mean, row[0])))
    return table(heads, [row for _, row in rows])


def _small_logs(small: Document) -> str:
    heads = ["log", "`nextquery synth log.tsv`", "background sessions", "test sessions"]
    rows = [
        [LOGS[name], f"`{facts['log']}`", *(f"{facts['sessions'][split]:,}" for split in _SPLITS)]
        for name, facts in small.items()
    ]
    return table(heads, rows)


def _small_systems(small: Document) -> str:
    """Every system on every small log, by the mean of the first log's scenarios."""
    columns = [
        (LOGS[log], scenario, small[log]["scenarios"][scenario])
        for log in small
        for scenario in (TITLES if log != "control" else ["next_query"])
        if small[log]["scenarios"].get(scenario, {}).get("mrr")
    ]
    heads = [f"{log}: {TITLES[name]} ({figures['cases']:,})" for log, name, figures in columns]
    rows = []
    for system, seeds in _by_form(columns[0][2]["mrr"]).items():
        cells = [
            [value for name, value in figures["mrr"].items() if _form(name) == system]
            for _, _, figures in columns
        ]
        shown = [_shown(cell) if cell else "" for cell in cells]
        marks = str(len(seeds)) if "-" in seeds[0] else ""
        first = [
            cell for cell, column in zip(cells, columns, strict=True) if column[0] == LOGS["first"]
        ]
        rows.append((statistics.mean(map(statistics.mean, first)), [_title(system), marks, *shown]))
    rows.sort(key=lambda row: -row[0])
    return table(["system", "seeds on the first log", *heads], [row for _, row in rows])


def _small_costs(small: Document) -> str:
    heads = ["system", *(f"{LOGS[log]}: CPU seconds" for log in small), "size, MB"]
    rows = []
    for system in _by_form(small["first"]["costs"]):
        spent, sizes = [], []
        for figures in small.values():
            costs = [cost for name, cost in figures["costs"].items() if _form(name) == system]
            seconds = [cost["cpu_seconds"] for cost in costs]
            spent.append(f"{statistics.mean(seconds):.0f}" if seconds else "")
            sizes += [cost["mb"] for cost in costs]
        rows.append([NAMES[system], *spent, f"{min(sizes):.1f} to {max(sizes):.1f}"])
    return table(heads, rows)


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
        f"{value:.3f}".lstrip("0") for value in (statistics.mean(values), min(values), max(values))
    )
    return mean if len(values) == 1 else f"{mean} ({low}-{high})"


def _costs(synthetic: Document, costs: Document) -> str:
    rows = [
        [NAMES[name], f"{cost['cpu_seconds']:.0f} s of CPU time", f"{cost['mb']:.1f}"]
        for name, cost in costs["count_models"].items()
    ]
    words = min(costs["words"], WORDS) + 3
    for form in ("all", "first"):
        seconds = [facts["seconds"] for facts in _seeds(synthetic["models"], form)]
        minutes = statistics.mean(seconds) / 60
        rows.append([NAMES[form], f"{minutes:.1f} min on 2 cores", f"{_mb(form, words):.1f}"])
    return table(["system", "made in", "size, MB"], rows)


def _seeds(models: Document, form: str) -> Iterator[Any]:
    return (facts for name, facts in models.items() if _form(name) == form)


def _mb(form: str, words: int) -> float:
    """The weights of a model."""
    from nextquery.inference.weights import weight_shapes
    from nextquery.model.settings import ModelConfig

    config = ModelConfig.model_validate({**SIZES, "decoder_context": form})
    shapes = weight_shapes(config, words).values()
    return sum(4 * int(rows * (columns[0] if columns else 1)) for rows, *columns in shapes) / 1e6


_TEXT = """# Leaderboard

Every system of `nextquery experiment` on synthetic logs. `python -m research leaderboard WORK`
measures the small logs and writes this page. Intervals and tests are in [results](index.md).

Each cell is the MRR of the true next query among the 20 candidates of its anchor; the number of
test cases is in brackets. The best system is first. HRED has the mean over its training seeds,
with the lowest and highest in brackets. `+` is a ranker with a model's score as a further
feature: its sum alone, or in the forms that validation chose. In a control the same queries are
dealt to sessions at random, so that only frequencies can be learnt.

## Small logs

{small_logs}

The second log has other draws, 300 invented words, and clicks that follow from satisfaction. HRED
is `tiny` with `{copying}`, without copying `{plain}`, in the control one epoch. Rankers have two
seeds.

{small_systems}

With 141 to 268 cases an MRR has a standard error of about .02. The trainings are short: three
epochs leave HRED without copying far from trained. On the demo's log (30,000 sessions, six epochs,
copying, one ranker seed) the Baseline Ranker with HRED has .485, .476 and .498 in the three
scenarios, without it .303, .297 and .356.

CPU seconds of one thread and size of each folder, guard tables included:

{small_costs}

## A larger log

`nextquery synth log.tsv {log}`: {background} background sessions, {test} test sessions, and its
control. HRED without copying at twice the sizes of `tiny`, three epochs; rankers have three
seeds. `python -m research synthetic WORK` and `python -m research control WORK` make these
numbers.

{systems}

To add a system: `nextquery experiment DATA --model NAME=FOLDER`, any object with `score`, or a
TREC run, `--run NAME=FILE`.

{costs}
"""


def main(argument: str) -> None:
    """Measure in the folder `argument` and write the page; `page` only writes it."""
    if argument != "page":
        measure(Path(argument))
    PAGE.write_text(page())
