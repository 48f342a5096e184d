"""Queries as they are read for a model: spelling, synonyms, similar beginnings."""

from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import InputError
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import load
from nextquery.suggesters.rewriting import QueryRewriter, Synonyms, read_synonyms

SESSIONS = [
    *[(f"a{n}", ["television stand", "television wall mount"]) for n in range(40)],
    *[(f"b{n}", ["couch cover", "couch cover grey", "television stand"]) for n in range(30)],
    *[(f"c{n}", ["new york hotels", "new york hotels cheap"]) for n in range(20)],
]


@pytest.fixture(scope="module")
def model(prepared: Any, tiny_log: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("models") / "adjacency"
    data = prepared(tiny_log(SESSIONS, min_users=3, spelling=True))
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


def test_a_file_without_synonyms_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no synonyms"):
        _synonyms(tmp_path, "# nothing\n")


def test_an_unknown_query_becomes_a_known_form(model: Any, tmp_path: Path) -> None:
    synonyms = _synonyms(tmp_path, "sofa, settee, couch\nnyc => new york\n")
    rewriter = QueryRewriter(model.guard, synonyms)
    assert rewriter.context(["sofa cover"]).queries == ("couch cover",)
    assert rewriter.context(["nyc hotels"]).queries == ("new york hotels",)
    assert rewriter.context(["couch cover"]).queries == ("couch cover",)
    assert rewriter.context(["sofa zebra"]).queries == ("sofa zebra",)
    assert rewriter.context(["sofa cover"]).correction is None  # the word was not wrong


def test_the_correction_is_that_of_the_last_query(model: Any) -> None:
    rewriter = QueryRewriter(model.guard)
    first = rewriter.context(["televsion stand", "couch cover"])
    assert first.queries == ("television stand", "couch cover")
    assert first.correction is None
    last = rewriter.context(["couch cover", "televsion stand"])
    assert last.correction is not None
    assert last.correction.changes == (("televsion", "television"),)


def _complete(model: Any, rewriter: QueryRewriter, prefix: str) -> tuple[list[str], Any]:
    found = rewriter.complete([], prefix, model.complete([], prefix, 5), 5)
    scores = [item.score for item in found.items]
    assert scores == sorted(scores, reverse=True)
    return [item.text for item in found.items], found.correction


@pytest.mark.parametrize("prefix", ["telvis", "teelvision st", "televisiin", "tellevision sta"])
def test_completion_tolerates_one_slip(model: Any, prefix: str) -> None:
    texts, correction = _complete(model, QueryRewriter(model.guard), prefix)
    assert texts[0] == "television stand"
    assert correction is not None
    assert correction.text.startswith("televi")


def test_completion_without_a_slip_is_as_before(model: Any) -> None:
    rewriter = QueryRewriter(model.guard)
    for prefix in ("tele", "couch cover", "new york ", "n", "zzzz"):
        expected = [item.text for item in model.complete([], prefix, 5)]
        texts, correction = _complete(model, rewriter, prefix)
        assert texts[: len(expected)] == expected
        assert correction is None


def test_completion_finds_synonyms_after_what_is_typed(model: Any, tmp_path: Path) -> None:
    rewriter = QueryRewriter(model.guard, _synonyms(tmp_path, "sofa, couch\n"))
    assert _complete(model, rewriter, "sofa c") == (["couch cover", "couch cover grey"], None)
