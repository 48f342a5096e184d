"""`nextquery train`: train a network on a prepared log."""

import os
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.options import AsJson, print_result


def train(
    data: Annotated[Path, typer.Argument(help="A folder made by `nextquery prepare`.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    kind: Annotated[
        str | None,
        typer.Option(help="hred (default), or transformer: one over all queries of a session."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(help="tiny, small (default), paper, or a TOML file with the same keys."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a key of the config: --set train.epochs=3"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    earlier: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Continue training this model with what is new in DATA, with its config."
        ),
    ] = None,
    replay: Annotated[
        float,
        typer.Option(min=0.0, help="With --from: older sessions, as a multiple of the new ones."),
    ] = 1.0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Train a neural model; the model folder is self-contained.

    Ctrl-C or SIGTERM saves and stops; the same command with `--resume` resumes. Several processes:
    `torchrun --nproc-per-node 2 -m nextquery train ...`

    Example: `nextquery train data --out model --config small --set train.epochs=3`
    """
    # Read when torch is loaded: threads that wait by spinning make training on a busy machine
    # several times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from nextquery.extras import require

    require("train")
    from nextquery.cli.signals import save_on_signals
    from nextquery.config import changed_config, load_config
    from nextquery.errors import ConfigError
    from nextquery.logs.data_folder import PreparedData
    from nextquery.model.settings import KIND, TRANSFORMER, RunConfig, TransformerConfig
    from nextquery.training.continuing import Continuation
    from nextquery.training.distributed import processes
    from nextquery.training.run import train as run

    if kind not in (None, KIND, TRANSFORMER):
        raise ConfigError(f"`kind` {kind}: must be {KIND} or {TRANSFORMER}")
    continuation = None if earlier is None else Continuation(earlier, replay)
    if continuation is None or config is not None:
        source = config_of(kind, config or "small")
        settings = load_config(RunConfig, source, overrides or ())
        if kind == TRANSFORMER and not isinstance(settings.model, TransformerConfig):
            hint = f'write kind = "{TRANSFORMER}" under [model]'
            raise ConfigError(f"{source}: describes HRED; {hint}")
    else:
        settings = changed_config(RunConfig, continuation.settings(), overrides or ())
    prepared = PreparedData(data)
    with processes(device) as group:

        def say(text: str) -> None:
            if group.leads:
                typer.echo(text, err=True)

        outcome = run(
            prepared,
            out,
            settings,
            group,
            resume=resume,
            continuation=continuation,
            say=say,
            stopping=save_on_signals,
        )
        step = outcome.position.step
        if outcome.facts is None:
            say(f"stopped after step {step}, saved; run the same command with --resume to resume")
            raise typer.Exit(128 + outcome.signal)
        if not group.leads:
            return
    facts = outcome.facts.entries()
    print_result({"model": str(out), **facts}, _summary(out, facts), as_json, indent=2)


def config_of(kind: str | None, config: str) -> str:
    """The shipped config of this name for a kind of network; a file says its kind itself."""
    from nextquery.config import shipped_configs

    named = f"{kind}-{config}"
    return named if named in shipped_configs() else config


def _summary(out: Path, facts: dict[str, object]) -> str:
    from nextquery.training.publishing import duration

    contexts = facts["validation_perplexity_by_context"]
    assert isinstance(contexts, dict)
    perplexities = ", ".join(f"{context}: {value:.1f}" for context, value in contexts.items())
    return (
        f"{out}: trained in {duration(float(str(facts['seconds'])))}, {facts['steps']} steps, "
        f"best at step {facts['best_step']}\n"
        f"validation perplexity by number of earlier queries: {perplexities}\n"
        f"try: nextquery suggest {out} 'a query' 'the next one'"
    )
