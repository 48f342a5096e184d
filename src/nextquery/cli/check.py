"""`nextquery check`: may a new model replace the one that is served?"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli.options import AsJson, Given, print_result, with_settings
from nextquery.evaluation.settings import CheckSettings

if TYPE_CHECKING:
    from nextquery.evaluation.check import Check


@with_settings
def check(
    new: Annotated[Path, typer.Argument(help="The model folder that was just made.")],
    against: Annotated[Path, typer.Option(help="The model folder that is served now.")],
    data: Annotated[
        Path, typer.Option(help="A data folder with sessions after what both models learnt from.")
    ],
    promote: Annotated[
        bool, typer.Option("--promote", help="If it passes, replace the old model by NEW.")
    ] = False,
    as_json: AsJson = False,
    *,
    options: Given[CheckSettings],
) -> None:
    """Compare a new model with the served one on later sessions; exit with 1 if it is worse.

    Example: `nextquery check models/hred-next --against models/hred --data DATA --promote`
    """
    from nextquery.evaluation.check import check as run_check
    from nextquery.evaluation.check import promote as put_in_place
    from nextquery.logs.data_folder import read_data
    from nextquery.suggesters.loading import fingerprint, write_check

    settings = options.settings()
    checked = fingerprint(new)
    result = read_data(data, lambda prepared: run_check(new, against, prepared, settings))
    write_check(new, result.document(), checked)
    if promote and result.passed:
        put_in_place(new, against)
        write_check(against, result.document(), checked)
    print_result(result.document(), "\n".join(_lines(result)), as_json, indent=2)
    if not result.passed:
        raise typer.Exit(1)


def _lines(result: "Check") -> Iterator[str]:
    yield f"{result.cases:,} next queries of {result.users:,} users after what both models know"
    for name, value in result.mrr.items():
        yield f"  {name:<14} MRR {value:.4f}"
    for name, value in result.nll.items():
        yield f"  {name:<14} {value:.3f} nats per symbol"
    for difference in result.differences:
        unit = "MRR" if difference.measure == "mrr" else "log-likelihood per symbol"
        yield (
            f"  new - {difference.other:<14} {difference.difference:+.4f} {unit} "
            f"(99%: {difference.low:+.4f} to {difference.high:+.4f})"
        )
    yield "passed" if result.passed else "refused: " + "; ".join(result.reasons)
