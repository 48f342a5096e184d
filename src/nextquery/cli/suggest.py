"""`nextquery suggest`, `complete`, `score`, `explain`, `neighbours` and `why`: asking a model."""

import math
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli.options import AnyModel, AsJson, named_folders, print_result
from nextquery.errors import InputError
from nextquery.normalise import join_words, normalise_query
from nextquery.records import Correction, Suggestion
from nextquery.settings import TUNING

if TYPE_CHECKING:
    from nextquery.suggesters.base import Suggester
    from nextquery.suggesters.diagnosis import Diagnosis
    from nextquery.suggesters.rewriting import QueryRewriter

TrainedModel = Annotated[Path, typer.Argument(help="A model folder made by `nextquery train`.")]
Context = Annotated[
    list[str] | None,
    typer.Option("--context", help="A query of the session, oldest first; repeatable."),
]
Blocklist = Annotated[
    Path | None, typer.Option(help="A file of words and phrases never to suggest.")
]
SynonymsFile = Annotated[
    Path | None,
    typer.Option("--synonyms", help="A file of synonyms in Solr's format, for unknown queries."),
]
Correct = Annotated[
    bool,
    typer.Option(
        "--correct/--no-correct", help="Correct misspellings with words of the log, and say so."
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=TUNING,
        help="Neural models: prefixes kept at every step; 10 by default, and at least 30 where a "
        "list is ranked by more than likelihood.",
    ),
]
Diversity = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="How much suggestions should differ from each other; 0 by default."
    ),
]
Specificity = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="How much lower globally popular queries are ranked; by default 0.3 with neural "
        "models, 0.25 with a blend, 0 with others.",
    ),
]
Usefulness = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        rich_help_panel=TUNING,
        help="HRED trained with clicks: weight of log P(useful); 0 by default.",
    ),
]
Known = Annotated[
    str | None,
    typer.Option(
        help="Neural models: free, prefer (default) or only queries that at least K users typed."
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=TUNING,
        help="Neural models: the output layer: exact, fast (8 bits) or auto, by size.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Neural models: paper makes lists as in the paper, ranked by likelihood alone."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        rich_help_panel=TUNING,
        help="Neural models: a decode setting as key=value, e.g. max_words=8; repeatable.",
    ),
]


def decode_options(
    suggester: "Suggester",
    options: dict[str, Any],
    sets: Sequence[str],
    adjustable: Set[str] = frozenset(),
) -> dict[str, Any]:
    """The keyword arguments that the given options make for this model.

    A model that decodes takes all of them as its config; one that counts takes `adjustable` ones.
    """
    chosen = {key: value for key, value in options.items() if value is not None}
    if not chosen and not sets:
        return {}
    from nextquery.suggesters.base import Adjustable, Decoding

    if isinstance(suggester, Decoding):
        from nextquery.inference.settings import override

        return {"config": override(suggester.config, chosen, sets)}
    if isinstance(suggester, Adjustable) and not sets and chosen.keys() <= adjustable:
        return chosen
    names = [f"--{key}" for key in chosen if key not in adjustable]
    names += [f"--set {change}" for change in sets]
    raise InputError(f"{', '.join(names)}: only for a neural model; this one is {suggester.kind!r}")


def unable(path: Path, suggester: "Suggester", problem: str) -> InputError:
    """The error of a command that this kind of model cannot run."""
    return InputError(f"{path}: a model of kind {suggester.kind!r} {problem}; give a trained one")


def as_written(suggestion: Suggestion) -> Suggestion:
    """A suggestion as people write it: Chinese, Japanese and Thai without spaces."""
    return replace(suggestion, text=join_words(suggestion.text))


def suggest(
    model: AnyModel,
    queries: Annotated[
        list[str] | None, typer.Argument(help="The session so far, oldest query first.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=0, help="How many suggestions at most.")] = 5,
    blocklist: Blocklist = None,
    hits: Annotated[
        Path | None,
        typer.Option(
            help="File of titles or known queries: suggest only queries whose words a line has."
        ),
    ] = None,
    rescue: Annotated[
        Path | None,
        typer.Option(
            help="A rescue model: its suggestions come first if the last query finds nothing, by "
            "--hits or else by the model's own log."
        ),
    ] = None,
    synonyms: SynonymsFile = None,
    correct: Correct = True,
    guards: Annotated[
        bool, typer.Option("--guards/--no-guards", help="Refuse what must not be shown.")
    ] = True,
    beam: Beam = None,
    specificity: Specificity = None,
    diversity: Diversity = None,
    usefulness: Usefulness = None,
    known: Known = None,
    mode: Mode = None,
    preset: Preset = None,
    settings: Settings = None,
    fallback: Annotated[
        bool,
        typer.Option(
            "--fallback/--no-fallback",
            help="If a count model has nothing, show related or frequent queries; the service "
            "shows none.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Suggest the next query.

    Example: `nextquery suggest models/adjacency "cheap flights" "cheap flights paris" -n 3`
    """
    from nextquery import load
    from nextquery.guard.guard import read_hits
    from nextquery.inference.lists import group
    from nextquery.inference.native import keep_freed_memory
    from nextquery.suggesters.base import ListMaker, SuggestOptions
    from nextquery.suggesters.count_suggester import CountSuggester, fall_back
    from nextquery.suggesters.rewriting import ReadContext

    keep_freed_memory()
    check = read_hits(hits) if hits else None
    suggester = load(model, blocklist=blocklist, hits=check, guarded=guards)
    chosen = {"beam": beam, "specificity": specificity, "diversity": diversity, "known": known}
    chosen |= {"mode": mode, "usefulness": usefulness, "preset": preset}
    options = decode_options(suggester, chosen, settings or (), {"specificity", "diversity"})
    typed = queries or []
    start = time.perf_counter()
    rewriter = _rewriter(suggester, synonyms, correct)
    read = rewriter.context(typed) if rewriter else ReadContext(tuple(typed))
    context = list(read.queries)
    config = options.pop("config", None)
    [suggestions] = ListMaker(suggester).lists([context], SuggestOptions(n, **options), config)
    if rescue and context:
        suggestions = _rescued(rescue, context, suggestions, n, blocklist, check)
    problem = ""
    if not suggestions:
        problem = "the model has no suggestion for this session"
        if isinstance(suggester, CountSuggester):
            suggestions = fall_back(suggester, context, n) if fallback else []
            problem += "" if fallback else "; --fallback shows related or frequent queries"
    instead = bool(problem and suggestions)
    suggestions = [as_written(item) for item in suggestions]
    took = (time.perf_counter() - start) * 1000
    document = {
        "context": typed,
        "suggestions": [
            asdict(item) | {"group": group(context, item.text)} for item in suggestions
        ],
        "corrected": _corrected(read.correction),
        "model": suggester.kind,
        "took_ms": took,
        **({"fallback": True} if instead else {}),
    }
    if not as_json:
        _say_correction(read.correction)
        if problem:
            typer.echo(problem + ("; these are from the same log:" if instead else ""), err=True)
    print_result(document, _lines(suggestions), as_json)


def _lines(suggestions: Sequence[Suggestion]) -> str:
    return "\n".join(f"{item.score:9.3f}  {item.text}  [{item.source}]" for item in suggestions)


def _rewriter(
    suggester: "Suggester", synonyms: Path | None, correct: bool
) -> "QueryRewriter | None":
    """What reads queries as the service does; None if they are to be taken as they are typed."""
    from nextquery.suggesters.base import Guarded
    from nextquery.suggesters.rewriting import QueryRewriter, read_synonyms

    synonyms_by_phrase = read_synonyms(synonyms) if synonyms else None
    if not correct or not isinstance(suggester, Guarded):
        return None
    return QueryRewriter(suggester.guard, synonyms_by_phrase)


def _corrected(correction: Correction | None) -> dict[str, object] | None:
    """A correction as the service sends it."""
    if correction is None:
        return None
    changes = [{"typed": old, "corrected": new} for old, new in correction.changes]
    return {"text": join_words(correction.text), "changes": changes}


def _say_correction(correction: Correction | None) -> None:
    if correction is not None:
        typer.echo(f"for {join_words(correction.text)!r} (--no-correct: as typed)", err=True)


def _rescued(
    folder: Path,
    context: list[str],
    suggestions: list[Suggestion],
    n: int,
    blocklist: Path | None,
    check: Callable[[str], bool] | None,
) -> list[Suggestion]:
    """The list after a query that finds nothing; any other as it is."""
    from nextquery import load
    from nextquery.suggesters.rescue import Rescue, rescued

    model = load(folder, blocklist=blocklist, hits=check)
    if not isinstance(model, Rescue):
        raise InputError(f"--rescue {folder}: a {model.kind} model; make one with --kind rescue")
    last = normalise_query(context[-1])
    fails = model.fails(last) if check is None else not check(last)
    return rescued(suggestions, model.suggest(context, n), n) if fails else suggestions


def complete(
    model: AnyModel,
    prefix: Annotated[
        str, typer.Option("--prefix", help="What is typed so far; its last word may be unfinished.")
    ] = "",
    context: Context = None,
    n: Annotated[int, typer.Option("-n", min=0, help="How many completions at most.")] = 5,
    blocklist: Blocklist = None,
    synonyms: SynonymsFile = None,
    correct: Correct = True,
    beam: Beam = None,
    diversity: Diversity = None,
    known: Known = None,
    mode: Mode = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Complete a half-typed query; a space at the end means that the last word is whole.

    Example: `nextquery complete models/hred --context "paris museum" --prefix "louvre op"`
    """
    from nextquery import load
    from nextquery.inference.native import keep_freed_memory
    from nextquery.suggesters.base import Completer

    keep_freed_memory()
    suggester = load(model, blocklist=blocklist)
    if not isinstance(suggester, Completer):
        raise unable(model, suggester, "completes nothing")
    if any(change.startswith("specificity=") for change in settings or ()):
        raise InputError("--set specificity: orders suggestions, not completions")
    chosen = {"beam": beam, "diversity": diversity, "known": known, "mode": mode}
    options = decode_options(suggester, chosen, settings or ())
    start = time.perf_counter()
    rewriter = _rewriter(suggester, synonyms, correct)
    completions = suggester.complete(context or [], prefix, n, **options)
    correction = None
    if rewriter is not None:
        read = rewriter.complete(context or [], prefix, completions, n)
        completions, correction = list(read.items), read.correction
    shown = [as_written(item) for item in completions]
    took = (time.perf_counter() - start) * 1000
    document = {
        "context": context or [],
        "prefix": prefix,
        "completions": [asdict(item) for item in shown],
        "corrected": _corrected(correction),
        "took_ms": took,
    }
    if not as_json:
        _say_correction(correction)
        if not shown:
            typer.echo("no completion", err=True)
    print_result(document, _lines(shown), as_json)


def score(
    model: AnyModel,
    candidates: Annotated[
        list[str], typer.Option("--candidate", help="A possible next query; repeatable.")
    ],
    context: Context = None,
    usefulness: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="HRED trained with clicks: weight of log P(useful), added to the likelihood.",
        ),
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Print the natural log-likelihood of each candidate, in the given order.

    Example: `nextquery score models/qvmm --context "paris" --candidate "paris hotels"`
    """
    from nextquery import load
    from nextquery.inference.rescoring import NO_HEAD
    from nextquery.suggesters.base import UsefulnessJudge

    suggester = load(model)
    scored = suggester.score(context or [], candidates)
    rows: list[dict[str, Any]] = [asdict(item) for item in scored]
    if usefulness:
        if not isinstance(suggester, UsefulnessJudge) or not suggester.judges_usefulness:
            raise InputError(f"--usefulness: {NO_HEAD}")
        judged = suggester.usefulness_many([context or []], [candidates])
        for row, probability in zip(rows, judged[0], strict=True):
            row["usefulness"] = probability
            row["score"] = row["log_likelihood"] + usefulness * math.log(probability)
    lines = []
    for row in rows:
        unknown = f"  [unknown words: {' '.join(row['unknown'])}]" if row["unknown"] else ""
        useful = f"  [useful: {row['usefulness']:.0%}]" if usefulness else ""
        value = row.get("score", row["log_likelihood"])
        lines.append(f"{value:9.3f}  {row['text']}{useful}{unknown}")
    print_result({"scores": rows}, "\n".join(lines), as_json)


def explain(
    model: TrainedModel,
    queries: Annotated[list[str], typer.Argument(help="The session, oldest query first.")],
    figure: Annotated[
        Path | None, typer.Option(help="Draw all gates as a heat map: a .png, .svg or .pdf file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how much each query of a session counts: by update gates, or by attention.

    Example: `nextquery explain models/hred "airlines" "united airlines" "google" --figure g.png`
    """
    from nextquery import load
    from nextquery.suggesters.base import Explainer, Gated
    from nextquery.suggesters.neural import draw_gates

    suggester = load(model)
    if not isinstance(suggester, Explainer):
        raise unable(model, suggester, "cannot explain itself")
    weights = suggester.explain(queries)
    if figure is not None:
        if figure.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise InputError(f"--figure {figure}: must end in .png, .svg or .pdf")
        if not isinstance(suggester, Gated):
            raise unable(model, suggester, "has no gates to draw")
        draw_gates(weights, suggester.update_gates_many([queries])[0], figure)
        typer.echo(f"wrote {figure}", err=True)
    rows = [f"{item.update:7.3f}  {item.share:5.3f}  {item.query}" for item in weights]
    document = {"queries": [asdict(item) for item in weights]}
    print_result(document, "\n".join([" update  share  query", *rows]), as_json)


def neighbours(
    model: TrainedModel,
    text: Annotated[str, typer.Argument(help="A query, or with --words a word.")],
    words: Annotated[
        bool, typer.Option("--words", help="Nearest words to a word, instead of queries.")
    ] = False,
    n: Annotated[int, typer.Option("-n", min=1, help="How many neighbours.")] = 10,
    as_json: AsJson = False,
) -> None:
    """List the nearest known queries or words by cosine.

    Example: `nextquery neighbours models/hred "cheap flights" -n 5`
    """
    from nextquery import load
    from nextquery.suggesters.base import Embedder

    suggester = load(model)
    if not isinstance(suggester, Embedder):
        raise unable(model, suggester, "has no vectors")
    nearest = suggester.neighbours(text, n, words=words)
    document = {"text": text, "neighbours": [asdict(item) for item in nearest]}
    lines = [f"{item.cosine:6.3f}  {item.text}" for item in nearest]
    print_result(document, "\n".join(lines), as_json)


def why(
    model: AnyModel,
    query: Annotated[str, typer.Argument(help="The query to explain.")],
    context: Context = None,
    blocklist: Blocklist = None,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", help="NAME=MODEL: also ask this model; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a query can be suggested and why not: counts, guard, rank, score.

    Example: `nextquery why models/hred "paris hotels" --context paris --compare adj=models/adj`
    """
    from nextquery import load
    from nextquery.suggesters import diagnosis

    compared = named_folders(compare or [], "compare")
    if "model" in compared:
        raise InputError("`compare` model: this name is taken by MODEL; choose another")
    diagnoses = {
        name: diagnosis.why(load(folder, blocklist=blocklist), query, context or [])
        for name, folder in {"model": model, **compared}.items()
    }
    text = "\n".join(_readable(name, item) for name, item in diagnoses.items())
    print_result({name: asdict(item) for name, item in diagnoses.items()}, text, as_json)


def _readable(name: str, diagnosis: "Diagnosis") -> str:
    can = diagnosis.can_be_suggested
    verdict = "can be suggested" if can else f"cannot be suggested: {diagnosis.reason}"
    least, count = diagnosis.min_users, diagnosis.count
    few = "none" if least == 1 else f"fewer than {least}"
    users = f"at least {least}" if diagnosis.enough_users else few
    seen = f", {count:,} time{'' if count == 1 else 's'}" if count else ""
    rank = f"{diagnosis.rank}" if diagnosis.rank else f"not among the first {diagnosis.listed}"
    lines = [
        f"{name} ({diagnosis.model}): {diagnosis.query!r} {verdict}",
        f"  users who typed it: {users}{seen}",
        f"  log-likelihood: {diagnosis.score:.3f}",
        f"  rank: {rank}",
    ]
    rare = [word.word for word in diagnosis.words if not word.enough_users]
    unknown = [word.word for word in diagnosis.words if not word.known]
    if rare:
        of = "that nobody typed" if least == 1 else f"of fewer than {least} users"
        lines.append(f"  words {of}: {' '.join(rare)}")
    if unknown:
        lines.append(f"  words that the model does not know: {' '.join(unknown)}")
    return "\n".join(lines)
