"""The finished model folder: weights, vocabulary, guard tables, curve and card."""

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any

from nextquery.artifacts import publish
from nextquery.guard.tables import write_tables
from nextquery.logs.data_folder import PreparedData, continued_entry, data_entry, describe_forgotten
from nextquery.model.likelihood import NETWORKS, SessionModel
from nextquery.model.settings import KIND, RunConfig
from nextquery.training.continuing import Chosen, Continuation, describe
from nextquery.training.trainer import EVENTS, METRICS, Perplexity, UsefulnessLoss, read_metrics

CARD, CURVE = "README.md", "training.png"


@dataclass(frozen=True)
class RunFacts:
    """What a finished run has to say of itself."""

    steps: int
    epochs: int
    best_step: int
    words: int
    seconds: float
    peak_memory_bytes: int
    processes: int
    threads: int
    """Of each process; with another number the weights differ a little, by the order of sums."""
    device: str
    run: str
    """An id that no other run has."""
    perplexity: Mapping[int | None, Perplexity]
    """On the validation sessions, by the number of earlier queries given; None: all."""
    usefulness: UsefulnessLoss | None = None
    """Of the usefulness head on the validation sessions; None: the model has none."""

    def entries(self) -> dict[str, Any]:
        """The facts as manifest keys."""
        plain = vars(self).copy()
        del plain["perplexity"], plain["usefulness"]
        entries = {
            **plain,
            "seconds": round(self.seconds, 1),
            "validation_nll": self.perplexity[None].nll,
            "validation_perplexity": self.perplexity[None].perplexity,
            "validation_perplexity_known": self.perplexity[None].known_perplexity,
            "validation_perplexity_by_context": {
                _context(context): measured.perplexity
                for context, measured in self.perplexity.items()
            },
        }
        if self.usefulness is not None:
            entries["validation_usefulness_nll"] = self.usefulness.nll
            entries["validation_usefulness_share_nll"] = self.usefulness.share_nll
        return entries


def publish_model(
    out: Path,
    model: SessionModel,
    config: RunConfig,
    data: PreparedData,
    run: Path,
    facts: RunFacts,
    continuation: Continuation | None,
    chosen: Chosen | None,
) -> None:
    """Make the model folder at `out` from the model and what the folder `run` gathered."""
    entries = {
        **model.manifest_entries(),
        "settings": config.model_dump(by_alias=True),
        "training": facts.entries(),
        "data": data_entry(data),
    }
    if continuation is not None and chosen is not None:
        entries["data"] = continued_entry(data, continuation.manifest)
        sessions = {"new": chosen.new, "replayed": chosen.replayed}
        entries["earlier"] = {"run": continuation.run, **sessions}
    with publish(out, model.kind, entries) as partial:
        model.write_files(partial)
        write_tables(data, partial)
        shutil.copyfile(run / METRICS, partial / METRICS)
        shutil.copytree(run / EVENTS, partial / EVENTS)
        if util.find_spec("matplotlib"):
            draw_curve(run / METRICS, partial / CURVE)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        sizes = len(model.vocabulary), parameters
        card = model_card(config, data, facts, sizes, entries)
        (partial / CARD).write_text(card, encoding="utf-8")


def draw_curve(metrics: Path, target: Path) -> None:
    """Draw training and validation perplexity over the steps."""
    from matplotlib.figure import Figure

    entries = list(read_metrics(metrics))
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for key, label in (("loss", "training"), ("validation_nll", "validation")):
        points = [
            (entry["step"], math.exp(min(entry[key], 50))) for entry in entries if key in entry
        ]
        steps, values = [step for step, _ in points], [value for _, value in points]
        axes.plot(steps, values, marker="o" if key == "validation_nll" else "", label=label)
    axes.set(xlabel="step", ylabel="perplexity per word", yscale="log", title="Training")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(target, dpi=120)


def model_card(
    config: RunConfig,
    data: PreparedData,
    facts: RunFacts,
    sizes: tuple[int, int],
    entries: Mapping[str, Any],
) -> str:
    """The model folder's README: data, settings, perplexity and the figures of Table 2.

    `sizes` are symbols and parameters, `entries` the keys of the manifest.
    """
    words, parameters = sizes
    counts = data.artifact.manifest["counts"]
    perplexity = facts.perplexity[None]
    rows = "".join(
        f"| {_context(context)} | {measured.perplexity:.2f} | {measured.known_perplexity:.2f} |\n"
        for context, measured in facts.perplexity.items()
    )
    settings = "".join(
        f"| `{section}.{key}` | {value} |\n"
        for section, values in config.model_dump(by_alias=True).items()
        for key, value in values.items()
    )
    size, peak = f"{parameters * 4 / 1e6:.1f} MB", f"{facts.peak_memory_bytes / 1e6:,.0f} MB"
    time = duration(facts.seconds)
    network = NETWORKS[getattr(config.model, "kind", KIND)].title
    return f"""# {network} query-suggestion model

Predicts the next query of a search session from the queries before it. Use it with
`nextquery suggest`, `nextquery score` or `nextquery serve` on this folder.

## Data

| | background (trained on) | validation |
|---|---|---|
| sessions | {counts["sessions"]["background"]:,} | {counts["sessions"]["validation"]:,} |
| queries | {counts["queries"]["background"]:,} | {counts["queries"]["validation"]:,} |

Vocabulary: {words:,} symbols (padding, end of query and unknown word included); the log was
prepared with a k-user rule of K = {data.min_users}.
{describe_forgotten(entries["data"])}
{describe(entries.get("earlier"))}

## Validation perplexity per word

End-of-query symbols included; {perplexity.symbols:,} symbols. `known` leaves out words that the
vocabulary lacks.

| earlier queries given | perplexity | known words only |
|---|---|---|
{rows}
{_usefulness(facts.usefulness)}
## Training (the figures of the paper's Table 2)

| batches seen | training time | parameters | model in memory | peak memory of training |
|---|---|---|---|---|
| {facts.steps:,} | {time} | {parameters:,} | {size} | {peak} |

The weights are those of step {facts.best_step:,}, the best validation; {facts.words:,} symbols were
trained on in {facts.epochs} epochs, by {facts.processes} process(es) on {facts.device} with
{facts.threads} thread(s) each.
`{METRICS}` has every report, `{EVENTS}/` the same for TensorBoard, `{CURVE}` the curve:

![training curve]({CURVE})

## Settings

| key | value |
|---|---|
{settings}"""


def _usefulness(loss: UsefulnessLoss | None) -> str:
    if loss is None:
        return "The model has no usefulness head: it says nothing of whether a query is useful."
    return (
        f"Usefulness head: {loss.nll:.3f} nats per query on {loss.queries:,} validation queries; "
        f"{loss.share_nll:.3f} if every query got the same probability."
    )


def duration(seconds: float) -> str:
    """A time as people write it: `44h 01m`, `3m 20s`."""
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours else f"{minutes}m {seconds_left:02d}s"


def _context(context: int | None) -> str:
    return "all" if context is None else str(context)
