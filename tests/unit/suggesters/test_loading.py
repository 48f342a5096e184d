"""Model kinds and capabilities, why a query is not suggested, and how queries are rewritten."""

import re
from pathlib import Path
from typing import Any

import pytest

import nextquery
from nextquery.errors import ArtifactError, InputError
from nextquery.model.settings import KIND, TRANSFORMER
from nextquery.suggesters import base
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.diagnosis import why
from nextquery.suggesters.fit import FITTERS, fit_model
from nextquery.suggesters.loading import COUNT_MODELS, MODEL_KINDS, count_model, load, model_kind
from nextquery.suggesters.popularity import Popularity
from nextquery.suggesters.rewriting import QueryRewriter, Synonyms, read_synonyms

from .conftest import DataMaker

SOURCE = Path(nextquery.__file__).parent


def test_the_classes_call_themselves_as_the_table_does() -> None:
    assert all(count_model(kind).kind == kind for kind in COUNT_MODELS)
    assert set(FITTERS) == set(COUNT_MODELS)
    assert set(MODEL_KINDS) - set(COUNT_MODELS) == {KIND, TRANSFORMER, "blend", "reranked"}


def test_a_neural_kind_is_named_in_the_table_and_by_its_model_only() -> None:
    neural = {kind for kind, facts in MODEL_KINDS.items() if facts.neural}
    word = re.compile("|".join(f"[\"']{kind}[\"']" for kind in neural))
    files = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if word.search(path.read_text(encoding="utf-8"))
        and path.parent.name != "export"  # its graphs are called so
    }
    assert files == {"suggesters/loading.py", "model/settings.py"}


def test_a_folder_says_what_it_holds(served_models: dict[str, Path]) -> None:
    assert model_kind(served_models["hred"]).neural
    assert not model_kind(served_models["adjacency"]).neural


def test_a_folder_without_a_model_is_refused(data_of: DataMaker) -> None:
    data = data_of([("ann", ["a", "b"])])
    with pytest.raises(ArtifactError, match="holds 'data', not a model"):
        model_kind(data.path)


PROTOCOLS = {
    name: kind
    for name, kind in vars(base).items()
    if not name.startswith("_")
    and getattr(kind, "_is_protocol", False)
    and kind.__module__ == base.__name__
}
HRED = PROTOCOLS.keys() - {"Adjustable", "Wrapping"}
COUNTS = {"Scorer", "Suggester", "Completer", "Adjustable", "Guarded"}


def test_the_docstring_lists_every_capability() -> None:
    listed = re.findall(r"^    (\w+) {2,}\w", base.__doc__ or "", re.M)
    assert sorted(listed) == sorted(PROTOCOLS)


@pytest.mark.parametrize(
    ("name", "able"), [("adjacency", COUNTS), ("popularity", COUNTS), ("hred", HRED)]
)
def test_a_model_has_its_capabilities_and_no_others(
    served_models: dict[str, Path], name: str, able: set[str]
) -> None:
    model: Any = load(served_models[name])
    assert {item for item, kind in PROTOCOLS.items() if isinstance(model, kind)} == able


@pytest.fixture(scope="module")
def popularity_folder(data_of: DataMaker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    crowd = [(f"user{number}", ["red shoes", "red boots", "rude boots"]) for number in range(4)]
    diarist = ("diarist", ["red shoes", "boots shoes"])
    data = data_of([*crowd, diarist], [], min_users=3)
    folder: Path = tmp_path_factory.mktemp("model") / "popularity"
    fit_model(Popularity, data).save(folder)
    return folder


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("red shoes", None),
        ("Red, Boots!", None),
        ("...", "nothing of it is left when it is normalised"),
        ("shoes", "the model suggests only queries that at least 3 users typed"),
        ("boots shoes", "refused by the guard: a pair of words of fewer than K users"),
        ("red zebra", "refused by the guard: a word of fewer than K users"),
        ("rude boots", "refused by the guard: blocklist"),
        ("r-u-d-e boots", "refused by the guard: blocklist"),
        ("555 123 4567", "refused by the guard: personal data"),
    ],
)
def test_reasons(popularity_folder: Path, tmp_path: Path, query: str, reason: str | None) -> None:
    (tmp_path / "blocked.txt").write_text("rude\n", encoding="utf-8")
    result = why(load(popularity_folder, blocklist=tmp_path / "blocked.txt"), query)
    assert result.reason == reason
    assert result.can_be_suggested == (reason is None)


def test_a_query_of_the_session_is_not_suggested_again(popularity_folder: Path) -> None:
    result = why(load(popularity_folder), "red shoes", ["RED shoes"])
    assert result.reason == "it is a query of the session"
    assert result.count == 5


def test_asking_why_is_not_counted_as_a_refusal(popularity_folder: Path) -> None:
    suggester = load(popularity_folder)
    why(suggester, "boots shoes")
    assert suggester.guard.blocked() == {}  # type: ignore[attr-defined]


def test_where_every_user_counts_nobody_is_said_to_have_typed_it(
    data_of: DataMaker, tmp_path: Path
) -> None:
    data = data_of([("one", ["red shoes", "red boots"])], [], min_users=1)
    fit_model(Popularity, data).save(tmp_path / "popularity")
    result = why(load(tmp_path / "popularity"), "shoes red")
    reason = "the model suggests only queries that it has seen, and this is none of them"
    assert result.reason == reason
    assert (result.count, result.min_users) == (None, 1)


SESSIONS = [
    *[(f"a{n}", ["television stand", "television wall mount"]) for n in range(40)],
    *[(f"b{n}", ["couch cover", "couch cover grey", "television stand"]) for n in range(30)],
    *[(f"c{n}", ["new york hotels", "new york hotels cheap"]) for n in range(20)],
]


@pytest.fixture(scope="module")
def adjacency_model(data_of: DataMaker, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("models") / "adjacency"
    data = data_of(SESSIONS, min_users=3, spelling=True)
    fit_model(Adjacency, data).save(folder)
    return load(folder)


def _synonyms(tmp_path: Path, text: str) -> Synonyms:
    (tmp_path / "synonyms.txt").write_text(text)
    return read_synonyms(tmp_path / "synonyms.txt")


def test_solr_rules(tmp_path: Path) -> None:
    rules = "# furniture\n\nsofa, couch\nNYC => new york, big apple\na\\,b => c\n"
    synonyms = _synonyms(tmp_path, rules)
    assert list(synonyms.variants("sofa cover")) == ["couch cover"]
    assert list(synonyms.variants("couch")) == ["sofa"]
    assert list(synonyms.variants("nyc hotels")) == ["new york hotels", "big apple hotels"]
    assert list(synonyms.variants("new york")) == []  # a rule has a direction
    assert list(synonyms.variants("a b")) == ["c"]  # the comma was kept


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a => b => c", "line 3: has more than one =>"),
        ("alone", "line 3: has one phrase"),
        ("a, , b", "line 3: a synonym is empty"),
        ("a =>", "line 3: a synonym is empty"),
        (", ".join(f"word{n}" for n in range(60)), "line 3: 'word0' has more than 50"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        _synonyms(tmp_path, f"# one\ntv, television\n{line}\n")


def test_an_unknown_query_becomes_a_known_form(adjacency_model: Any, tmp_path: Path) -> None:
    synonyms = _synonyms(tmp_path, "sofa, settee, couch\nnyc => new york\n")
    rewriter = QueryRewriter(adjacency_model.guard, synonyms)
    assert rewriter.context(["sofa cover"]).queries == ("couch cover",)
    assert rewriter.context(["nyc hotels"]).queries == ("new york hotels",)
    assert rewriter.context(["couch cover"]).queries == ("couch cover",)
    assert rewriter.context(["sofa zebra"]).queries == ("sofa zebra",)
    assert rewriter.context(["sofa cover"]).correction is None  # the word was not wrong


def test_the_correction_is_that_of_the_last_query(adjacency_model: Any) -> None:
    rewriter = QueryRewriter(adjacency_model.guard)
    first = rewriter.context(["televsion stand", "couch cover"])
    assert first.queries == ("television stand", "couch cover")
    assert first.correction is None
    last = rewriter.context(["couch cover", "televsion stand"])
    assert last.correction is not None
    assert last.correction.changes == (("televsion", "television"),)


def _complete(adjacency_model: Any, rewriter: QueryRewriter, prefix: str) -> tuple[list[str], Any]:
    result = rewriter.complete([], prefix, adjacency_model.complete([], prefix, 5), 5)
    scores = [item.score for item in result.items]
    assert scores == sorted(scores, reverse=True)
    return [item.text for item in result.items], result.correction


@pytest.mark.parametrize("prefix", ["telvis", "teelvision st", "televisiin", "tellevision sta"])
def test_completion_tolerates_one_slip(adjacency_model: Any, prefix: str) -> None:
    texts, correction = _complete(adjacency_model, QueryRewriter(adjacency_model.guard), prefix)
    assert texts[0] == "television stand"
    assert correction is not None
    assert correction.text.startswith("televi")


def test_completion_without_a_slip_is_as_before(adjacency_model: Any) -> None:
    rewriter = QueryRewriter(adjacency_model.guard)
    for prefix in ("tele", "couch cover", "new york ", "n", "zzzz"):
        expected = [item.text for item in adjacency_model.complete([], prefix, 5)]
        texts, correction = _complete(adjacency_model, rewriter, prefix)
        assert texts[: len(expected)] == expected
        assert correction is None


def test_completion_finds_synonyms_after_what_is_typed(
    adjacency_model: Any, tmp_path: Path
) -> None:
    rewriter = QueryRewriter(adjacency_model.guard, _synonyms(tmp_path, "sofa, couch\n"))
    assert _complete(adjacency_model, rewriter, "sofa c") == (
        ["couch cover", "couch cover grey"],
        None,
    )
