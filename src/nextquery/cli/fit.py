"""`nextquery fit`, `train`, `blend` and `vectors`."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.main import in_options
from nextquery.cli.options import AsJson, DataFolder, NewModel, print_result
from nextquery.logs.settings import PrepareSettings
from nextquery.training import REPLAY


def fit(
    data: DataFolder,
    kind: Annotated[
        str, typer.Option(help="popularity, adjacency, qvmm, cacb, shortcuts, rescue or returning.")
    ],
    out: NewModel,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting of the kind as key=value, e.g. depth=3 of qvmm; repeatable.",
        ),
    ] = None,
    hits: Annotated[
        Path | None,
        typer.Option(help="For rescue: file of titles; a query that none contains has no hits."),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="What counts the sessions: polars, duckdb or spark.")
    ] = PrepareSettings.engine,
    spark_master: Annotated[
        str, typer.Option(help="The Spark master, for --engine spark.")
    ] = PrepareSettings.spark_master,
    as_json: AsJson = False,
) -> None:
    """Fit a count model, or a model of returning visitors (`--kind returning`).

    Example: `nextquery fit DATA --kind adjacency --out models/adjacency`
    """
    from rich.console import Console

    from nextquery.artifacts import check_target
    from nextquery.config import from_overrides
    from nextquery.guard.guard import read_hits
    from nextquery.logs.data_folder import PreparedData
    from nextquery.logs.inspect import emptiness
    from nextquery.suggesters.fit import empty_reason, fit_model, model_class
    from nextquery.suggesters.returning import Returning

    model_type = model_class(kind)
    chosen = from_overrides(model_type.settings_type, settings or [])
    check_target(out, kind)
    start = time.perf_counter()
    prepared = PreparedData(data)
    with Console(stderr=True).status(f"fitting {kind}"):
        check = read_hits(hits) if hits else None
        counting = {"engine": engine, "spark_master": spark_master}
        fitted = fit_model(model_type, prepared, chosen, **counting, hits=check)
        fitted.save(out)
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    advice, empty = list[str](), None
    if isinstance(fitted, Returning):
        advice.append(fitted.describe())
    else:
        satisfactory = chosen.model_dump().get("satisfactory", False)
        if satisfactory is None and fitted.settings.model_dump()["satisfactory"] is False:
            advice.append(
                "No session ends in a click on a known query, so all sessions are indexed "
                "(`satisfactory=false`)."
            )
        advice += (item.text for item in emptiness(prepared))
        empty = empty_reason(fitted, prepared, check)
    if empty is not None:
        advice.append(f"{out} has no suggestions: {empty}.")
    options = {"min_users": "--min-users", "hits": "--hits", "trending_days": "trending_days"}
    advice = [in_options(text, options) for text in advice]
    document = {
        "kind": kind,
        "model": str(out),
        "settings": fitted.settings.model_dump(mode="json"),
        "advice": advice,
        "empty": empty is not None,
        "seconds": seconds,
        "bytes": size,
    }
    text = f"fitted {kind} in {seconds:.1f} s: {out} ({size / 1e6:.1f} MB)"
    print_result(document, text, as_json)
    if not as_json:
        for sentence in advice:
            typer.echo(sentence, err=True)


def blend(
    model: Annotated[Path, typer.Argument(help="A trained model folder.")],
    members: Annotated[
        list[Path], typer.Argument(help="Count models of the same log, one to four.")
    ],
    data: Annotated[
        Path, typer.Option(help="The prepared log whose validation sessions decide the weights.")
    ],
    out: NewModel,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting as key=value, e.g. specificity=0.2; repeatable."),
    ] = None,
    returning: Annotated[
        Path | None,
        typer.Option(help="A model of returning visitors for the folder to include."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Blend a trained model with count models into one model with one list.

    Example: `nextquery blend models/hred models/adj models/ss --data DATA --out models/blend`
    """
    from rich.console import Console

    from nextquery.config import from_overrides
    from nextquery.logs.data_folder import PreparedData
    from nextquery.suggesters.blend import BlendSettings, make_blend

    chosen = from_overrides(BlendSettings, settings or [])
    start = time.perf_counter()
    with Console(stderr=True).status("learning the weights"):
        blended = make_blend(model, members, PreparedData(data), out, chosen, returning)
    seconds = time.perf_counter() - start
    rows = blended.weights()
    document = {
        "model": str(out),
        "settings": chosen.model_dump(mode="json"),
        "weights": rows,
        "seconds": seconds,
    }
    lines = [f"blended in {seconds:.1f} s: {out}"]
    for group, weights in rows.items():
        shares = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
        lines.append(f"  where {group}: {shares}")
    print_result(document, "\n".join(lines), as_json)


def vectors(
    data: DataFolder,
    out: Annotated[Path, typer.Option(help="The file to write, ending in .safetensors.")],
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Vectors to read: word2vec, GloVe, fastText or safetensors."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="module:function that takes texts and gives one vector per text."),
    ] = None,
    size: Annotated[
        int, typer.Option(min=1, help="Numbers per word, reduced by principal components.")
    ] = 128,
    words: Annotated[int, typer.Option(min=1, help="Most frequent words of the log.")] = 90_000,
    as_json: AsJson = False,
) -> None:
    """Make initial word vectors for `train --set train.word_vectors=FILE`.

    Example: `nextquery vectors data --from glove.6B.300d.txt --out vectors.safetensors`
    """
    from nextquery.errors import InputError
    from nextquery.logs.data_folder import read_data
    from nextquery.text.vectors import encode_words, import_encoder, read_word_vectors

    if (source is None) == (encoder is None):
        raise InputError("vectors come from a file (--from) or an encoder (--encoder): give one")
    if out.suffix != ".safetensors":
        raise InputError(f"{out}: the name of the file to write must end in .safetensors")
    vocabulary_words = read_data(data, lambda opened: opened.words()[:words])
    if source is not None:
        read = read_word_vectors(source, set(vocabulary_words))
    else:
        assert encoder is not None
        read = encode_words(vocabulary_words, import_encoder(encoder))
    word_vectors = read.reduced(size)
    word_vectors.save(out)
    with_vector, numbers = len(word_vectors.words), word_vectors.size
    document = {
        "out": str(out),
        "words": len(vocabulary_words),
        "with_vector": with_vector,
        "size": numbers,
    }
    text = (
        f"{out}: {with_vector:,} of {len(vocabulary_words):,} words "
        f"({with_vector / len(vocabulary_words):.0%}), "
        f"{numbers} numbers each\n"
        f"try: nextquery train {data} --out model --set train.word_vectors={out}"
    )
    print_result(document, text, as_json)


def train(
    data: DataFolder,
    out: NewModel,
    kind: Annotated[
        str | None,
        typer.Option(help="hred (default) or transformer."),
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
    ] = REPLAY,
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
    from nextquery.errors import require

    require("train")
    from nextquery.cli.entry import save_on_signals
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
