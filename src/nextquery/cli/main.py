"""The `nextquery` command: its general options, and errors printed as one line.

The commands stand in `command_table.py`. Their modules import only typer and the standard library
at the top, and the library inside the function, so that `--help` answers at once.
"""

import os
import sys

import typer

from nextquery._version import __version__
from nextquery.cli.command_table import LazyGroup
from nextquery.cli.error_lines import one_line
from nextquery.cli.option_names import in_options, option_names
from nextquery.errors import MissingDependencyError, NextqueryError
from nextquery.extras import EXTRAS, missing, missing_message

app = typer.Typer(
    name="nextquery",
    cls=LazyGroup,
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
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version and which extras are installed.",
    ),
) -> None:
    """Query suggestions learnt from a site's own query log.

    Begin with `nextquery demo`, or with your own log: `nextquery init queries.tsv.gz`
    """


def run() -> None:
    """Run the command line; an expected error is one line on stderr and its exit code."""
    _set_environment()
    try:
        app()
    except NextqueryError as error:
        message = one_line(in_options(str(error), option_names(app)))
        typer.echo(f"error: {message}", err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        needed = missing_message(error.name or "")
        if needed is None:
            raise
        typer.echo(f"error: {needed}", err=True)
        sys.exit(MissingDependencyError.exit_code)


def _set_environment() -> None:
    """What libraries read when they are loaded, where nobody has set it.

    Polars and Arrow give freed memory back soon: an eighth of the peak of `prepare` was memory that
    nobody used any more. Pydantic looks for no plugins, for which it would read the metadata of
    every installed package.
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", "background_thread:true,muzzy_decay_ms:0")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
