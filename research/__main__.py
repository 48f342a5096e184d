"""Produce the figures of the documentation: `python -m research NAME ...` in a checkout.

WORK keeps logs, models and reports; finished steps are not repeated. A study writes docs/results.

    pages                        the tables and figures of docs/results, from its JSON files
    leaderboard WORK             measure the small logs (six CPU minutes), write the page
    leaderboard page             docs/results/leaderboard.md from its JSON files
    plots                        training curves and latency, from docs/results
    plots serving FILE NOTE      first store a run of `./scripts/bench serve --json` with
                                 NEXTQUERY_BENCH_SERVE=offered; NOTE: what else the machine did
    plots training NAME=MODEL... first store the curves of trained models

Synthetic logs:

    synthetic WORK               HRED without copying: two forms, three seeds each
    control WORK                 the same on the shuffled control, one model
    copying WORK                 HRED with copying; known and new visitors
    experiment-time WORK         the time of an experiment with 10,000 test sessions
    presentations WORK           the paper's form on logs of .1, .4 and 1.6 million sessions
    log-sizes WORK [NAME]        learning curves: copying, plain
    synthetic-earlier WORK       with the user's earlier queries before the context
    grids WORK                   rankers by the grid that features are rounded to
    softmax WORK                 exact and sampled loss on the same sessions
    audit WORK                   planted secrets and fake users (docs/explanation/privacy.md)
    reproduction WORK [NAME...]  the paper's pipeline on 2 million sessions: time and memory

AOL logs, which you must have:

    aol-held-out WORK LOG...     known and held-out visitors, today's defaults
    aol WORK LOG...              new visitors
    aol-meaning WORK LOG...      new visitors, every context, with a sentence encoder
    aol-known WORK LOG...        known visitors
    aol-contexts WORK LOG...     the same, every context
    aol-plain WORK LOG...        the same for HRED without copying
    aol-earlier WORK LOG...      the same with the user's earlier queries before the context
    list-variants WORK LOG...    lists of HRED's variants for held-out visitors
    returning RETURNING DATA NAME=MODEL...
                                 own earlier queries of visitors (docs/how-to/visitors-history.md)

Any log:

    transformer WORK NAME [LOG...]
                                 HRED and the Transformer, each with the same CPU time; NAME:
                                 aol (with LOGs), synthetic-60000, shuffled-60000, or
                                 synthetic-N with N 3000, 15000, 50000 or 220000

    first-lists WORK NAME [LOG...]
                                 lists before and after the text gate (docs/results/lists.md); NAME:
                                 aol, sessions-1000, edu-sites (AOL's LOGs), excite (its LOG),
                                 synthetic

Single tables, printed as JSON; `rescue`, `new_days` and `synthetic_log` write docs/results. --quick
takes small sizes and prints:

    quality [--quick]            decoding settings (docs/explanation/decoding.md)
    rescue [--quick]             after a query without results (docs/reference/models.md)
    satisfaction [--quick]       learning from clicks (docs/how-to/feedback.md)
    new_days [--quick]           `update` against preparing again (docs/how-to/nightly-updates.md)
    log_growth [--quick]         cost by the size of the log (docs/results/speed.md)
    synthetic_log [--quick]      the synthetic log (docs/explanation/synthetic-log.md)
"""

import importlib
import json
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

TABLES = ("quality", "rescue", "satisfaction", "new_days", "log_growth", "synthetic_log")
STORED = ("rescue", "new_days", "synthetic_log")


def main(arguments: list[str]) -> None:
    """Run one study, or write the pages."""
    match arguments:
        case ["pages"]:
            from research import page, plots

            page.write_all()
            plots.draw_all()
        case ["leaderboard", where]:
            from research import leaderboard

            leaderboard.main(where)
        case ["plots", *rest]:
            _plots(rest)
        case ["returning", returning, data, *models] if models:
            from research import returning_visitors

            named = dict(model.split("=", 1) for model in models)
            folders = {name: Path(folder) for name, folder in named.items()}
            returning_visitors.study(Path(returning), Path(data), folders)
        case ["first-lists", work, study, *logs]:
            from research import first_lists

            first_lists.study(Path(work), study, [Path(log) for log in logs])
        case ["list-variants", work, *logs] if logs:
            from research import list_variants

            list_variants.study(Path(work), [Path(log) for log in logs])
        case ["transformer", work, study, *logs]:
            from research import transformer

            transformer.study(Path(work), study, [Path(log) for log in logs])
        case [name] if name in STORED:
            from research.commands import save

            measured = importlib.import_module(f"research.{name}").main(False)
            facts = {"date": f"{date.today()}", "command": f"python -m research {name}"}
            save(name, facts | measured)
        case [name] | [name, "--quick"] if name in TABLES:
            table = importlib.import_module(f"research.{name}")
            print(json.dumps(table.main("--quick" in arguments), indent=2))
        case [name, work, *rest]:
            _study(name, Path(work), rest)
        case _:
            raise SystemExit(__doc__)


def _plots(arguments: list[str]) -> None:
    from research import measured_plots

    match arguments:
        case []:
            pass
        case ["serving", file, note]:
            measured_plots.keep_serving(Path(file), note)
        case ["training", *models] if models:
            named = dict(model.split("=", 1) for model in models)
            measured_plots.keep_training({name: Path(folder) for name, folder in named.items()})
        case _:
            raise SystemExit(__doc__)
    measured_plots.draw_all()


def _study(name: str, work: Path, rest: list[str]) -> None:
    from research import (
        aol,
        audit,
        commands,
        earlier,
        grids,
        log_sizes,
        presentations,
        reproduction,
        softmax,
    )

    synthetic: dict[str, Callable[[Path], None]] = {
        "audit": audit.study,
        "synthetic": commands.synthetic,
        "control": commands.control,
        "copying": commands.copying,
        "experiment-time": commands.experiment_time,
        "presentations": presentations.study,
        "synthetic-earlier": earlier.synthetic,
        "grids": grids.study,
        "softmax": softmax.study,
    }
    with_logs: dict[str, Callable[[Path, list[Path]], None]] = {
        "aol": aol.new_visitors,
        "aol-held-out": aol.held_out,
        "aol-meaning": aol.meaning,
        "aol-known": aol.known_visitors,
        "aol-contexts": aol.contexts,
        "aol-plain": aol.plain,
        "aol-earlier": earlier.aol,
    }
    by_part: dict[str, Callable[..., None]] = {
        "log-sizes": log_sizes.curves,
        "reproduction": reproduction.study,
    }
    if name not in {*synthetic, *with_logs, *by_part}:
        raise SystemExit(__doc__)
    work.mkdir(parents=True, exist_ok=True)
    if name in synthetic:
        synthetic[name](work)
    elif name in with_logs:
        with_logs[name](work, [Path(log) for log in rest])
    elif rest:
        by_part[name](work, rest)
    else:
        by_part[name](work)


if __name__ == "__main__":
    main(sys.argv[1:])
