"""Produce the figures of the documentation again: `python -m research NAME ...` in a checkout.

WORK keeps logs, models and reports; what is there already is not made again. A study writes
docs/results/NAME.json.

    page                         docs/results/experiments.md and its figures, nothing is measured
    leaderboard WORK             measure the small logs (six minutes of one core), write the page
    leaderboard page             docs/results/leaderboard.md alone, nothing is measured
    plots                        training curves and latency from docs/results
    plots serving FILE NOTE      first keep a run of `./scripts/bench serve --json` with
                                 NEXTQUERY_BENCH_SERVE=offered; NOTE: what else the machine did
    plots training NAME=MODEL... first keep the curves of trained models

Synthetic logs:

    made-up WORK                 HRED without copying: two forms, three seeds each
    control WORK                 the same on the log's shuffled control, one model
    learning WORK                one domain, many configurations, one epoch, three seeds
    presentations WORK           the paper's form, logs of .1, .4 and 1.6 million sessions
    log-sizes WORK [NAME]        learning curves: copying, plain
    made-up-earlier WORK         with the user's earlier queries before the context
    seeds WORK                   three seeds, their ensemble and its students (before 0.2.0)

AOL logs, which you must have:

    aol WORK LOG...              new visitors
    aol-bagged WORK LOG...       the same with single and with bagged rankers, next query
    aol-meaning WORK LOG...      new visitors, every context, with a sentence encoder
    aol-known WORK LOG...        known visitors; users of the last log are shown separately
    aol-contexts WORK LOG...     the same, every context
    aol-plain WORK LOG...        the same for HRED without copying
    aol-earlier WORK LOG...      the same with the user's earlier queries before the context
    aol-ngrams WORK LOG...       word vectors with and without character n-grams
    aol-seeds WORK LOG...        three seeds and their ensemble, perplexities
    leak WORK DATA               does the ranker of new visitors know who they are?
    returning RETURNING DATA NAME=MODEL...
                                 own earlier queries of visitors (docs/how-to/visitors-history.md)

Single tables, printed as JSON; --quick takes small sizes:

    quality [--quick]            decoding settings (docs/explanation/decoding.md)
    rescue [--quick]             after a query without results (docs/reference/models.md)
    satisfaction [--quick]       learning from clicks (docs/how-to/feedback.md)
    new_days [--quick]           `update` against preparing again (docs/how-to/nightly-updates.md)
    log_growth [--quick]         cost by the size of the log (docs/how-to/many-machines.md)
    synthetic [--quick]          the synthetic log (docs/explanation/synthetic-log.md)
"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

TABLES = ("quality", "rescue", "satisfaction", "new_days", "log_growth", "synthetic")


def main(arguments: list[str]) -> None:
    """Run one study, or write a page."""
    match arguments:
        case ["page"]:
            from research import page, plots

            page.PAGE.write_text(page.fill(page.PAGE.read_text()))
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
        commands,
        earlier,
        few_users,
        log_sizes,
        one_domain,
        presentations,
        small_logs,
    )

    synthetic: dict[str, Callable[[Path], None]] = {
        "made-up": commands.made_up,
        "control": commands.control,
        "learning": one_domain.study,
        "presentations": presentations.study,
        "made-up-earlier": earlier.made_up,
        "seeds": small_logs.seeds,
    }
    of_logs: dict[str, Callable[[Path, list[Path]], None]] = {
        "aol": aol.new_visitors,
        "aol-bagged": few_users.study,
        "aol-meaning": aol.meaning,
        "aol-known": aol.known_visitors,
        "aol-contexts": aol.contexts,
        "aol-plain": aol.plain,
        "aol-earlier": earlier.aol,
        "aol-ngrams": small_logs.ngrams,
        "aol-seeds": small_logs.aol_seeds,
    }
    if name not in {*synthetic, *of_logs, "leak", "log-sizes"}:
        raise SystemExit(__doc__)
    work.mkdir(parents=True, exist_ok=True)
    if name in synthetic:
        synthetic[name](work)
    elif name in of_logs:
        of_logs[name](work, [Path(log) for log in rest])
    elif name == "leak":
        commands.leak(work, Path(rest[0]))
    elif rest:
        log_sizes.curves(work, rest)
    else:
        log_sizes.curves(work)


if __name__ == "__main__":
    main(sys.argv[1:])
