"""The `nextquery` command: a table of commands, and errors printed as one line.

Command modules import only typer and the standard library at the top; the library itself is
imported inside the function, so that `--help` answers at once.
"""

import os
import sys

import typer

from nextquery._version import __version__
from nextquery.cli.bench import bench
from nextquery.cli.demo import demo
from nextquery.cli.doctor import doctor
from nextquery.cli.experiment import experiment
from nextquery.cli.export import export
from nextquery.cli.logs.init import init
from nextquery.cli.logs.inspect import inspect
from nextquery.cli.logs.prepare import prepare
from nextquery.cli.logs.synth import synth
from nextquery.cli.models.complete import complete
from nextquery.cli.models.explain import explain
from nextquery.cli.models.fit import fit
from nextquery.cli.models.neighbours import neighbours
from nextquery.cli.models.score import score
from nextquery.cli.models.suggest import suggest
from nextquery.cli.models.train import train
from nextquery.cli.models.vectors import vectors
from nextquery.cli.models.why import why
from nextquery.cli.option_names import in_options, option_names
from nextquery.cli.serve import serve
from nextquery.cli.study import study
from nextquery.errors import MissingDependencyError, NextqueryError
from nextquery.extras import EXTRAS, missing, missing_message

app = typer.Typer(
    name="nextquery",
    help="Query suggestions learnt from a site's own query log.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        extras = ", ".join(name for name in EXTRAS if not missing(name)) or "none"
        typer.echo(f"nextquery {__version__} (extras: {extras})")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Query suggestions learnt from a site's own query log."""


# One line per command, in the order of the pipeline.
app.command()(demo)
app.command()(init)
app.command()(synth)
app.command()(prepare)
app.command()(inspect)
app.command()(vectors)
app.command()(train)
app.command()(fit)
app.command()(suggest)
app.command()(score)
app.command()(complete)
app.command()(why)
app.command()(explain)
app.command()(neighbours)
app.command()(experiment)
app.add_typer(study, name="study")
app.command()(serve)
app.command()(export)
app.command()(bench)
app.command()(doctor)


def run() -> None:
    """Run the command line; an expected error is one line on stderr and its exit code."""
    _set_allocators()
    try:
        app()
    except NextqueryError as error:
        message = in_options(str(error), option_names(app))
        typer.echo(f"error: {message}", err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        needed = missing_message(error.name or "")
        if needed is None:
            raise
        typer.echo(f"error: {needed}", err=True)
        sys.exit(MissingDependencyError.exit_code)


def _set_allocators() -> None:
    """Have Polars and Arrow give freed memory back soon; they read this when they are loaded.

    An eighth of the peak of `prepare` was memory that nobody used any more.
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", "background_thread:true,muzzy_decay_ms:0")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
