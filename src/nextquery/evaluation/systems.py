"""The systems of an experiment: fitted count models, given models, models of some users."""

import importlib
import json
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from nextquery.artifacts import open_artifact, publish, sha256, write_text
from nextquery.artifacts.files import check_plain_file
from nextquery.config import load_config
from nextquery.errors import InputError, TrainingError
from nextquery.evaluation.comparison import BASELINES
from nextquery.evaluation.lists import ListMaker
from nextquery.evaluation.steps import fingerprint
from nextquery.logs.data_folder import SINGLE_SEARCHES, PreparedData
from nextquery.model.settings import RunConfig
from nextquery.ranking.cases import user_fold
from nextquery.ranking.features import QueryVectors
from nextquery.ranking.scoring import CaseScorer, FoldScorer
from nextquery.suggesters.base import Scorer, Suggester
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import count_model, load
from nextquery.suggesters.neural import Ensemble
from nextquery.suggesters.popularity import DropWords, LastCompletions, Popularity
from nextquery.suggesters.qvmm import QVMM, QVMMSettings
from nextquery.text.vectors import Encoder
from nextquery.training.distributed import processes
from nextquery.training.run import folder_of_run, train

KeepUser = Callable[[str], bool]


def write_user_subset(
    data: PreparedData, out: Path, keep: KeepUser, splits: Collection[str]
) -> PreparedData:
    """Publish the folder `out` with only the users kept in `splits`; other splits stay whole."""

    def of_users(split: str, rows: pl.DataFrame) -> pl.DataFrame:
        if split not in splits:
            return rows
        users = [user for user in rows["user"].unique().to_list() if keep(user)]
        return rows.filter(pl.col("user").is_in(users))

    return write_copy(data, out, of_users, data.min_users, data.counts("clicks").head(0))


def write_copy(
    data: PreparedData,
    out: Path,
    change: Callable[[str, pl.DataFrame], pl.DataFrame],
    min_users: int,
    clicks: pl.LazyFrame,
) -> PreparedData:
    """Publish the folder `out`: that of `data` with the searches of each split changed.

    Counts and vocabulary are made anew of the background, under a K of `min_users`; of `clicks`
    those of known queries are kept.
    """
    manifest = data.artifact.manifest
    sessions: dict[str, int] = {}
    queries: dict[str, int] = {}
    entries = {
        "counts": {**manifest["counts"], "sessions": sessions, "queries": queries},
        "settings": {**manifest["settings"], "min_users": min_users},
    }
    with publish(out, "data", entries) as folder:
        for split in data.splits:
            rows = change(split, data.search_rows(split).collect())
            inside = rows
            if data.counts_single_searches:
                alone = pl.len().over("session") == 1
                _write(rows.filter(alone), folder / SINGLE_SEARCHES / split / "part-00000.parquet")
                inside = rows.filter(~alone)
            _write(inside, folder / "sessions" / split / "part-00000.parquet")
            sessions[split], queries[split] = inside["session"].n_unique(), len(inside)
            if split == "background":
                tables = count_tables(rows, min_users)
        known = tables["queries"].lazy().select("query")
        tables["clicks"] = clicks.join(known, on="query", how="semi").collect()
        for name, table in tables.items():
            _write(table, folder / "counts" / f"{name}.parquet")
        words = tables["words"]["word"].to_list()
        limit = int(manifest["settings"].get("vocabulary_size", len(words)))
        write_text(folder / "vocabulary.txt", "".join(f"{word}\n" for word in words[:limit]))
    return PreparedData(out)


def count_tables(rows: pl.DataFrame, min_users: int) -> dict[str, pl.DataFrame]:
    """The tables queries, words, word_pairs and followers of background rows, as `prepare` has."""
    known = pl.col("users") >= min_users
    rows = rows.with_columns(single=pl.len().over("session") == 1)
    queries = _count_searches(rows, "query").filter(known)
    words = rows.select("user", "single", word=pl.col("query").str.split(" "))
    spelt = words.with_row_index("search").explode("word")
    same = pl.col("search") == pl.col("search").shift(-1)
    pairs = spelt.select(
        "user", first="word", second=pl.when(same).then(pl.col("word").shift(-1))
    ).drop_nulls("second")
    following = pl.col("query").shift(-1).over("session", order_by="position")
    follows = rows.select("user", anchor="query", next=following).drop_nulls("next")
    for column in ("anchor", "next"):
        follows = follows.join(queries.select(pl.col("query").alias(column)), column, how="semi")
    return {
        "queries": queries,
        "words": _count_searches(spelt, "word").filter(known),
        "word_pairs": _count(pairs, ["first", "second"]),
        "followers": _count(follows, ["anchor", "next"]),
    }


def _count_searches(rows: pl.DataFrame, text: str) -> pl.DataFrame:
    """The counts of all rows, and of those in sessions of two or more queries."""
    inside = _count(rows.filter(~pl.col("single")), [text])
    inside = inside.rename({"count": "session_count", "users": "session_users"})
    joined = _count(rows, [text]).join(inside, text, how="left", maintain_order="left")
    return joined.fill_null(0)


def _count(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """How often and by how many users; highest count first, then by text."""
    counted = rows.group_by(keys).agg(
        count=pl.len().cast(pl.Int64), users=pl.col("user").n_unique().cast(pl.Int64)
    )
    return counted.sort(["count", *keys], descending=[True, *(False for _ in keys)])


def _write(rows: pl.DataFrame, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rows.write_parquet(file)


COUNT_MODELS = {
    "adj": "adjacency",
    "qvmm": "qvmm",
    "cacb": "cacb",
    "ss": "shortcuts",
    "popularity": "popularity",
}
"""The paper's names of the count models, and their kinds."""

TRIVIAL = ("drop_words", "completions", "popularity")
"""The rules that every system is compared with."""

RESERVED = tuple(dict.fromkeys((*COUNT_MODELS, *TRIVIAL, *BASELINES)))
"""Names that a model must not have."""


SystemSource = Scorer | Path | tuple[Path, ...]
"""A system given to an experiment: a model folder, several of them whose probabilities are averaged
(an ensemble), or any object with `score`."""


@dataclass(frozen=True)
class Systems:
    """All systems by the name under which they are reported.

    `models` are the systems under study: ranked alone, as a feature in each form, and analysed in
    full. `features` only contribute their score to a ranker of their own, `baseline+NAME`.
    """

    count_models: Mapping[str, Suggester]
    models: Mapping[str, Scorer]
    features: Mapping[str, Scorer] = field(default_factory=dict)
    unpruned: QVMM | None = None
    """All sequences of the background, for the Baseline Ranker of the authors' code."""
    query_vectors: QueryVectors | None = None
    """A sentence encoder, for the Baseline Ranker that sees meaning, too."""
    served_count_models: Mapping[str, Suggester] = field(default_factory=dict)
    """The count models as `fit` makes them, with single searches: for lists and completion."""
    fold_models: Mapping[str, Sequence[Scorer]] = field(default_factory=dict)
    """Models under study trained without the users of fold 0, 1, ...: for new visitors."""

    @property
    def qvmm(self) -> QVMM:
        """The QVMM that gives the Baseline Ranker its feature."""
        model = self.count_models["qvmm"]
        assert isinstance(model, QVMM)
        return model

    @cached_property
    def scorers(self) -> dict[str, CaseScorer | FoldScorer]:
        """What gives the scores of the systems under study."""
        return {name: CaseScorer(model) for name, model in self.models.items()}

    def for_new_visitors(self) -> "Systems":
        """The same without what was counted with a visitor's own sessions.

        A model under study is replaced by its fold models if it has any; scorers are shared, so
        that no score is asked for twice.
        """
        models = self.count_models.items()
        by_fold = {name: model for name, model in models if name in ("adj", "qvmm")}
        systems = replace(self, count_models=by_fold, features={})
        folded = {
            name: FoldScorer([CaseScorer(model) for model in models])
            for name, models in self.fold_models.items()
        }
        systems.scorers.update({**self.scorers, **folded})
        return systems

    @property
    def suggesters(self) -> dict[str, Suggester]:
        """Every system that can suggest by itself, the systems under study first."""
        counted = {**self.count_models, **self.served_count_models}
        systems = {**self.models, **self.features, **counted}
        return {name: model for name, model in systems.items() if isinstance(model, Suggester)}

    @property
    def list_makers(self) -> dict[str, ListMaker]:
        """The suggesters, and the trivial rules, which have no model folder."""
        suggesters = self.suggesters
        popularity = suggesters.get("popularity")
        if not isinstance(popularity, Popularity):
            return {**suggesters}
        drop_words, completions = DropWords(popularity), LastCompletions(popularity)
        return {**suggesters, "drop_words": drop_words, "completions": completions}


@contextmanager
def open_systems(
    data: PreparedData,
    folder: Path,
    models: Mapping[str, SystemSource],
    features: Mapping[str, SystemSource],
    fold_models: Mapping[str, Sequence[Path]],
    count_models: Mapping[str, str] = COUNT_MODELS,
    encoder: Encoder | None = None,
) -> Iterator[Systems]:
    """Load the given systems and fit the count models, each with its guard.

    The count models live in `folder` as long as they are needed; what a killed run left there is
    written anew.
    """
    check_names([*models, *features])
    opened_models = {name: _opened(source) for name, source in models.items()}
    opened_features = {name: _opened(source) for name, source in features.items()}
    folds = {name: [load(path) for path in paths] for name, paths in fold_models.items()}
    try:
        # Ranking uses the paper's counts; what is shown to visitors is made from all searches.
        paper = data.within_sessions()
        fitted = _fit_all(paper, folder / "sessions", count_models)
        served = {}
        if data.counts_single_searches:
            served = _fit_all(data, folder / "searches", count_models)
        yield Systems(
            fitted,
            opened_models,
            opened_features,
            unpruned=fit_model(QVMM, paper, QVMMSettings(pruning=0)),
            query_vectors=QueryVectors(encoder) if encoder else None,
            served_count_models=served,
            fold_models=folds,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fit_all(
    data: PreparedData, folder: Path, count_models: Mapping[str, str]
) -> dict[str, Suggester]:
    """The count models but those that lack the clicks they learn from."""
    clicks = pl.col("clicks").sum()
    clicked = {
        "cacb": bool(len(data.counts("clicks").head(1).collect())),  # finds concepts by them
        "ss": bool(data.session_rows("background").select(clicks).collect().item()),
    }
    kinds = {name: kind for name, kind in count_models.items() if clicked.get(name, True)}
    fitted: dict[str, Suggester] = {}
    write_guard_tables = None
    for name, kind in kinds.items():
        model = fit_model(count_model(kind), data)
        # The guard's tables depend on the data only: made once, copied for the other models.
        model.write_guard_tables = write_guard_tables or model.write_guard_tables
        model.save(folder / kind)
        loaded = count_model(kind).load(folder / kind)
        fitted[name], write_guard_tables = loaded, loaded.write_guard_tables
    return fitted


def check_names(names: Sequence[str]) -> None:
    """Refuse names that are taken or that the report's own names are made of.

    >>> check_names(["plain", "with-copying"])
    """
    for name in names:
        if name in RESERVED or not re.fullmatch(r"[a-z0-9_-]+", name):
            raise InputError(
                f"`model` {name}=...: a name has small letters, digits, - and _, "
                f"and is none of {', '.join(RESERVED)}"
            )
    if len(set(names)) < len(names):
        raise InputError(f"`model`: a name is given twice ({', '.join(names)})")


def import_scorers(setting: str, name: str) -> dict[str, Scorer]:
    """The systems that the function `module:function` gives.

    It is called without arguments and gives an object with `score`, which is then called like the
    function, or several of them by name.
    """
    module, _, function = name.partition(":")
    try:
        returned = getattr(importlib.import_module(module), function)()
    except (Exception, SystemExit) as error:  # a module may raise anything while it is imported
        raise InputError(
            f"`{setting}` {name}: {type(error).__name__}: {error}; it must be module:function, "
            "importable from here, and callable without arguments"
        ) from None
    scorers = dict(returned) if isinstance(returned, Mapping) else {function: returned}
    for system, scorer in scorers.items():
        if not isinstance(scorer, Scorer):
            kind = type(scorer).__name__
            raise InputError(
                f"`{setting}` {name}: {system} is a {kind} without score(context, candidates)"
            )
    return scorers


def identity(source: SystemSource) -> Any:
    """What identifies a system when an experiment resumes; None: nothing does.

    Of model folders their files' checksums; of an object its text `identity`, if it has one.
    """
    if isinstance(source, tuple):
        return [identity(part) for part in source]
    if not isinstance(source, Path):
        return getattr(source, "identity", None)
    return open_artifact(source, verify=False).manifest["files"]


def file_identity(setting: str, file: Path) -> str:
    """What identifies a file: its SHA-256."""
    try:
        check_plain_file(file)
        return sha256(file)
    except OSError as error:
        raise InputError(f"`{setting}` {file}: cannot be read ({error.strerror})") from None


def _opened(source: SystemSource) -> Scorer:
    if isinstance(source, tuple):
        return Ensemble([load(part) for part in source])
    return load(source) if isinstance(source, Path) else source


def train_fold_models(data: PreparedData, folder: Path, config: str, folds: int) -> list[Path]:
    """A model for each fold of users, trained and validated without them."""
    return [
        train_on_users(
            data,
            folder / str(fold),
            config,
            lambda user, fold=fold: user_fold(user, folds) != fold,  # type: ignore[misc]
            data.splits,
            f"without fold {fold} of {folds}",
        )
        for fold in range(folds)
    ]


def train_on_users(
    data: PreparedData,
    out: Path,
    config: str,
    keep: KeepUser,
    splits: Sequence[str],
    subset: str,
    repeats: int = 1,
) -> Path:
    """The folder of a model trained on the users kept in `splits`; `subset` names who they are.

    With `repeats` it may take that many times the epochs of the config.
    """
    chosen = load_config(RunConfig, config)
    epochs = chosen.train.epochs * repeats
    chosen = chosen.model_copy(update={"train": chosen.train.model_copy(update={"epochs": epochs})})
    basis = fingerprint([data.artifact.manifest["files"], _config_identity(chosen), subset])
    marker = out.with_name(f"{out.name}.json")
    if out.is_dir() and _read_marker(marker) == basis:
        return out
    part = write_user_subset(data, out.with_name(f"{out.name}.data"), keep, splits)
    with processes("auto") as group:
        resume = folder_of_run(out).is_dir()
        outcome = train(part, out, chosen, group, resume=resume, say=lambda _: None)
    if outcome.signal:
        raise TrainingError(f"{out}: training was stopped; the same command resumes it")
    shutil.rmtree(part.path)
    write_text(marker, json.dumps({"fingerprint": basis, "trained": subset}) + "\n")
    return out


def config_identity(config: str) -> Any:
    """What identifies a config: its values, and the content of the files that it names."""
    return _config_identity(load_config(RunConfig, config))


def _config_identity(config: RunConfig) -> Any:
    vectors = config.train.word_vectors
    return [
        config.model_dump(mode="json"),
        file_identity("config", Path(vectors)) if vectors else "",
    ]


def _read_marker(path: Path) -> str | None:
    try:
        fingerprint = json.loads(path.read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(fingerprint)
