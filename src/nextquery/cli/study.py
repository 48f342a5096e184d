"""`nextquery study`: a blind user study, from topics to a report."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.options import AsJson, named_folders, print_result, with_settings
from nextquery.errors import InputError
from nextquery.study import StudySettings

study = typer.Typer(
    help="Prepare, run and analyse a blind user study of suggestions.", no_args_is_help=True
)


@study.command()
@with_settings
def create(
    data: Annotated[Path, typer.Option(help="Prepared data; its test split gives the contexts.")],
    model: Annotated[list[str], typer.Option(help="NAME=FOLDER; repeatable, at least two.")],
    out: Annotated[Path, typer.Option(help="The study folder to write.")],
    settings: StudySettings,
    decode: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME:key=value: another decode setting of this model, to compare settings of one "
            "model; repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pool the suggestions of several models for every topic.

    Example: `nextquery study create --topics topics.xml --data runs/data --model HRED=runs/hred
    --model ADJ=runs/adj --out runs/study`
    """
    from nextquery.inference.native import keep_freed_memory
    from nextquery.logs.data_folder import PreparedData, read_data
    from nextquery.study.pool import (
        Topic,
        add_contexts,
        check_names,
        create_study,
        open_models,
        read_topics,
        sample_topics,
    )

    keep_freed_memory()
    folders = named_folders(model, "model")
    check_names(list(folders))

    def read(prepared: PreparedData) -> list[Topic]:
        if settings.topics is None:
            return sample_topics(prepared, settings.sample, settings.seed)
        topics = read_topics(settings.topics)
        return add_contexts(topics, prepared, settings.max_contexts, settings.seed)

    chosen = read_data(data, read)
    models = open_models(folders, _by_model(decode or []))
    pool = create_study(out, chosen, models, settings.places, settings.seed)
    counts = {
        "topics": len(pool.topics),
        "with_context": sum(bool(t.topic.context) for t in pool.topics),
        "items": sum(len(t.items) for t in pool.topics),
    }
    text = (
        f"{counts['topics']} topics ({counts['with_context']} with context), "
        f"{counts['items']} distinct suggestions.\nNext: nextquery study serve {out}"
    )
    print_result({"study": str(out), **counts}, text, as_json)


@study.command()
def serve(
    folder: Annotated[Path, typer.Argument(help="The study folder.")],
    assessors: Annotated[int, typer.Option(min=1, help="Number of links, one per assessor.")] = 5,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8100,
    release: Annotated[
        list[int] | None, typer.Option(help="Let this assessor's link be used in another browser.")
    ] = None,
) -> None:
    """Serve the page; one link per assessor, the same links every time.

    Example: `nextquery study serve runs/study --assessors 5`
    """
    import uvicorn

    from nextquery.service.run import address, listen
    from nextquery.study.app import create_study_app
    from nextquery.study.pool import JudgementStore

    app = create_study_app(folder)
    store = JudgementStore(folder)
    with listen(host, port) as listener:
        for number, token in store.tokens(assessors).items():
            typer.echo(f"assessor {number}: {address(host, listener)}/a/{token}")
        for number in release or ():
            store.release(number)
        # No access log: the tokens are in the addresses.
        # h11: it limits the headers of a request.
        config = uvicorn.Config(app, log_level="warning", access_log=False, http="h11")
        uvicorn.Server(config).run(sockets=[listener])


@study.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The study folder.")],
    out: Annotated[
        Path | None, typer.Option(help="The report folder; STUDY-report next to it by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Report which model is better, by how much, and how well the assessors agree.

    Example: `nextquery study report runs/study`
    """
    from nextquery.study.report import PAPER_POSITIVE, POSITIVE, make_report, who_is_missing

    target = out or folder.with_name(f"{folder.name}-report")
    summary = make_report(folder, target)
    lines = []
    for model in summary.groups["all"].models:
        shares = ", ".join(f"{share.value:.0%} {name}" for name, share in model.shares.items())
        lines.append(f"{model.model}: {shares}; {model.positive.value:.0%} {POSITIVE}")
    lines.append(f"HRED in the paper: {PAPER_POSITIVE:.0%} {POSITIVE}")
    lines.append(who_is_missing(summary) or "Complete: every assessor has judged every suggestion.")
    lines.append(f"Report: {target / 'index.html'}")
    print_result(asdict(summary), "\n".join(lines), as_json, indent=2)


@study.command("first-pass")
def first_pass(
    folder: Annotated[Path, typer.Argument(help="The study folder.")],
    as_json: AsJson = False,
) -> None:
    """Check the lists before people judge them: gaps, repeats, models with the same lists.

    Example: `nextquery study first-pass runs/study`
    """
    from nextquery.study.pool import read_key, read_pool
    from nextquery.study.results import first_pass as look

    summary = look(read_pool(folder), read_key(folder))
    lines = [
        summary.notice,
        f"{summary.topics} topics, {summary.items} distinct suggestions; "
        f"{summary.same_lists} topics with the same suggestions from every model",
    ]
    lines += [
        f"{model.model}: {model.filled:.0%} of positions filled; of its suggestions "
        f"{model.repeats:.0%} repeat the session, {model.extends:.0%} extend the topic, "
        f"{model.alone:.0%} come from no other model"
        for model in summary.models
    ]
    print_result(asdict(summary), "\n".join(lines), as_json, indent=2)


def _by_model(values: list[str]) -> dict[str, list[str]]:
    """Decode settings by the name of the model that they are for."""
    settings: dict[str, list[str]] = {}
    for value in values:
        name, separator, setting = value.partition(":")
        if not separator or "=" not in setting:
            raise InputError(f"--decode {value}: write NAME:key=value")
        settings.setdefault(name, []).append(setting)
    return settings
