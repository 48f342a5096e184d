"""The pipeline as a few functions for Python programs and notebooks.

    data = prepare("log.tsv", "data")          raw log to sessions
    model = fit(data, "adjacency")             a count model, at once
    model = train(data, "model")               HRED, in minutes to hours
    model.suggest(["cheap flights"])           what comes next
    run_experiment(data, {"mine": model}, "report")

The command line does the same work through the same modules. What is written is named `out`, as
there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from nextquery.artifacts import temporary_folder
from nextquery.config import load_config, validated
from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare as prepare_logs
from nextquery.logs.settings import PrepareSettings, ReadSettings
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import count_model, load

if TYPE_CHECKING:
    from nextquery.evaluation.results import ExperimentResults


def prepare(log: Any, out: str | Path, **settings: Any) -> PreparedData:
    """Turn a raw log into a data folder at `out` and open it.

    `log` is a file, a list of files, or a pandas, Polars or Arrow table with one row per query.
    `settings` are the fields of `PrepareSettings` (`min_users`, `spelling`, ...) and of
    `ReadSettings` (`format`, `columns`, `time_zone`, `max_rejected`), or `read=ReadSettings(...)`.

    >>> data = prepare(LOG, "data", spelling=False)
    >>> data.splits
    ('background', 'training', 'validation', 'test')

    A table's columns are named as those of a CSV file would be:

    >>> import polars
    >>> table = polars.read_csv(LOG, separator="\\t")
    >>> columns = {"user": "AnonID", "time": "QueryTime", "query": "Query", "click": "ClickURL"}
    >>> same = prepare(table, "from_table", columns=columns, spelling=False)
    >>> same.words() == data.words()
    True
    """
    read_settings = settings.pop("read", ReadSettings())
    if not isinstance(read_settings, ReadSettings):
        raise InputError(f"`read`: must be a ReadSettings, not {type(read_settings).__name__}")
    names = {field.name for field in fields(ReadSettings)}
    read = {name: settings.pop(name) for name in names & settings.keys()}
    unknown = settings.keys() - {field.name for field in fields(PrepareSettings)}
    if unknown:
        raise InputError(f"prepare has no setting {min(unknown)!r}")
    chosen = PrepareSettings(read=replace(read_settings, **read), **settings)
    with _as_files(log) as files:
        prepare_logs(files, Path(out), chosen)
    return PreparedData(Path(out))


def fit(
    data: PreparedData | str | Path, kind: str, out: str | Path | None = None, **settings: Any
) -> Suggester:
    """Fit a count model: popularity, adjacency, qvmm, cacb or shortcuts; save it if `out` is given.

    >>> data = prepare(LOG, "data", spelling=False)
    >>> model = fit(data, "adjacency", "adjacency")
    >>> [suggestion.text for suggestion in model.suggest(["paris"], n=2)]
    ['paris hostels', 'google']
    >>> fit(data, "qvmm", depth=3).kind
    'qvmm'
    """
    model_type = count_model(kind)
    chosen = validated(model_type.settings_type, settings, f"fit of {kind}")
    model: Suggester = fit_model(model_type, _opened(data), chosen)
    if out is not None:
        model.save(Path(out))
    return model


def train(
    data: PreparedData | str | Path,
    out: str | Path,
    config: str | Path = "small",
    overrides: Sequence[str] = (),
    *,
    resume: bool = False,
    device: str = "auto",
) -> Suggester:
    """Train HRED into the model folder `out` and open it.

    `config` is `tiny`, `small`, `paper` or a TOML file; `overrides` change single keys. A run that
    was interrupted continues with `resume=True`.

    >>> data = prepare(LOG, "data", spelling=False)
    >>> model = train(data, "model", "tiny", ["train.epochs=1", "model.query_size=16"])
    >>> len(model.suggest(["paris"], n=3)) <= 3
    True
    """
    from nextquery.model.settings import RunConfig
    from nextquery.training.distributed import processes
    from nextquery.training.run import train as run

    chosen = load_config(RunConfig, config, overrides)
    with processes(device) as group:
        run(_opened(data), Path(out), chosen, group, resume=resume, say=lambda text: None)
    return load(out)


def run_experiment(
    data: PreparedData | str | Path,
    models: Mapping[str, Any],
    out: str | Path,
    *,
    features: Mapping[str, Any] | None = None,
    **settings: Any,
) -> "ExperimentResults":
    """Compare models on the paper's scenarios; the report is written to the folder `out`.

    `models` are model folders, or objects with `score(context, candidates)`, by name. `features`
    are the same, but each only feeds one more ranker, `baseline+NAME`. `settings` are the fields of
    `ExperimentSettings` (`scenarios`, `seeds`, ...).

    >>> data = prepare(LOG, "data", spelling=False)
    >>> fitted = fit(data, "popularity")
    >>> results = run_experiment(
    ...     data, {"frequent": fitted}, "report", scenarios=("next_query",), visitors="known",
    ...     seeds=1, min_followers=2, generation_contexts=5, completion_contexts=5,
    ... )
    >>> Path("report/index.html").is_file()
    True
    """
    from nextquery.evaluation.experiment import run_experiment as run
    from nextquery.evaluation.settings import ExperimentSettings

    chosen = ExperimentSettings(**settings)
    return run(_opened(data), Path(out), models, features=features, settings=chosen)


def _opened(data: PreparedData | str | Path) -> PreparedData:
    return data if isinstance(data, PreparedData) else PreparedData(Path(data))


@contextmanager
def _as_files(log: Any) -> Iterator[list[str | Path]]:
    """The files of a log; a table becomes a temporary file."""
    if isinstance(log, str | Path):
        yield [log]
    elif isinstance(log, Sequence):
        yield list(log)
    else:
        try:
            table = nw.from_native(log, eager_only=True)
        except TypeError:
            kind = type(log).__name__
            raise InputError(f"a log is a file, files or a table, not {kind}") from None
        with temporary_folder() as folder:
            file = folder / "table.parquet"
            table.write_parquet(file)
            yield [file]
