"""`nextquery trends`: what rises in a prepared log."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nextquery.logs.trends import TrendReport


def trends(
    data: Annotated[Path, typer.Argument(help="A folder that `nextquery prepare` made.")],
    days: Annotated[int, typer.Option("--days", help="The last days, held against the past.")] = 7,
    past_days: Annotated[
        int, typer.Option("--past-days", help="How many days before them are the past.")
    ] = 28,
    rate: Annotated[
        float, typer.Option("--rate", help="Expected share of false trends among those named.")
    ] = 0.05,
    min_users: Annotated[
        int | None, typer.Option("--min-users", help="Users of the last days that a query needs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show which queries rise against their own past, more than by chance.

    Example: `nextquery trends data/ --days 7 --past-days 28`
    """
    from nextquery.logs.data_folder import PreparedData
    from nextquery.logs.trends import TrendSettings, find_trends

    settings = TrendSettings(days, past_days, rate, min_users)
    report = find_trends(PreparedData(data), settings)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2, default=str))
    else:
        typer.echo(_readable(report))


def _readable(report: "TrendReport") -> str:
    lines = [
        f"{report.first_day} to {report.last_day} against the days from {report.past_from}: "
        f"{len(report.trends):,} of {report.queries_tested:,} queries rise",
    ]
    if report.trends:
        lines.append(f"{'growth':>8}{'users':>8}{'lately':>8}{'before':>8}{'q':>10}  query")
    lines += [
        f"{trend.growth:>7.1f}x{trend.users:>8,}{trend.recent:>8,}{trend.before:>8,}"
        f"{trend.q:>10.2g}  {trend.query}"
        for trend in report.trends
    ]
    return "\n".join(lines)
