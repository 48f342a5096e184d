"""`fit`, `suggest` and `score` on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import run_command as run

from nextquery.errors import ArtifactError, ConfigError, InputError
from nextquery.suggesters.loading import COUNT_MODELS

SESSIONS = [("ann", ["paris", "paris hotels"]), ("bob", ["paris", "rome"])]


@pytest.fixture(scope="module")
def data(prepared: Any, tiny_log: Any) -> Path:
    clicks = [("ann", "paris hotels", "a.example"), ("bob", "rome", "b.example")]
    folder: Path = prepared(tiny_log(SESSIONS, clicks)).path
    return folder


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_a_model_is_fitted_and_asked(kind: str, data: Path, tmp_path: Path) -> None:
    fitted = json.loads(run("fit", data, "--kind", kind, "--out", tmp_path / "model", "--json"))
    assert fitted["kind"] == kind
    assert fitted["bytes"] > 0
    answer = json.loads(run("suggest", tmp_path / "model", "paris", "-n", "2", "--json"))
    assert answer.keys() == {"context", "corrected", "suggestions", "model", "took_ms"}
    assert answer["context"] == ["paris"]
    assert answer["model"] == kind
    assert {item["text"] for item in answer["suggestions"]} == {"paris hotels", "rome"}
    assert all(item.keys() >= {"text", "score", "source"} for item in answer["suggestions"])
    scores = json.loads(
        run("score", tmp_path / "model", "--context", "paris", "--candidate", "rome",
            "--candidate", "oslo", "--json")
    )  # fmt: skip
    assert [item["text"] for item in scores["scores"]] == ["rome", "oslo"]
    assert scores["scores"][0]["log_likelihood"] > scores["scores"][1]["log_likelihood"]
    assert scores["scores"][0]["words"] == 2
    completed = json.loads(run("complete", tmp_path / "model", "--prefix", "paris h", "--json"))
    assert [item["text"] for item in completed["completions"]] == ["paris hotels"]


def test_people_can_read_the_answers(data: Path, tmp_path: Path) -> None:
    printed = run("fit", data, "--kind", "adjacency", "--out", tmp_path / "model")
    assert printed.startswith("fitted adjacency in ")
    lines = run("suggest", tmp_path / "model", "paris").splitlines()
    assert lines[0].endswith("paris hotels  [seen in the log (1 time after the last query)]")
    assert "unknown words: oslo" in run("score", tmp_path / "model", "--candidate", "oslo")


def test_a_setting_is_stored(data: Path, tmp_path: Path) -> None:
    run("fit", data, "--kind", "adjacency", "--out", tmp_path / "m", "--set", "shorten=false")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert manifest["settings"]["shorten"] is False


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--kind", "magic"], InputError, "magic: must be one of popularity, adjacency"),
        (["--kind", "adjacency", "--set", "depth=3"], ConfigError, "unknown key 'depth'"),
    ],
)
def test_a_wrong_option_says_what_is_right(
    arguments: list[str], error: type[Exception], message: str, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        run("fit", data, "--out", tmp_path / "model", *arguments)
    assert not (tmp_path / "model").exists()


def test_what_a_count_model_cannot_do_is_refused(data: Path, tmp_path: Path) -> None:
    run("fit", data, "--kind", "adjacency", "--out", tmp_path / "m")
    with pytest.raises(InputError, match="kind 'adjacency' cannot explain itself"):
        run("explain", tmp_path / "m", "paris")
    with pytest.raises(InputError, match="kind 'adjacency' has no vectors"):
        run("neighbours", tmp_path / "m", "paris")
    with pytest.raises(InputError, match="--beam: only for a neural model; this one is 'adj"):
        run("complete", tmp_path / "m", "--prefix", "p", "--beam", "3")


def test_a_data_folder_is_no_model(data: Path) -> None:
    with pytest.raises(ArtifactError, match="holds 'data', not a model"):
        run("suggest", data, "paris")


def test_a_query_without_results_is_rescued(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    sessions = [(f"u{n}", ["paris hotles", "paris hotels"]) for n in range(3)]
    data = prepared(tiny_log([*sessions, ("ann", ["paris hotels", "rome"])])).path
    (tmp_path / "titles").write_text("Hotels in Paris\nRome\n")
    titles = "--hits", tmp_path / "titles"
    run("fit", data, "--kind", "rescue", *titles, "--out", tmp_path / "rescue")
    run("fit", data, "--kind", "popularity", "--out", tmp_path / "model")

    def asked(*more: str | Path) -> list[str]:
        printed = run("suggest", tmp_path / "model", *more, "--rescue", tmp_path / "rescue")
        return [line.split(maxsplit=1)[1] for line in printed.splitlines()]

    lead = "paris hotels  [people who found nothing then searched for this (3 times)]"
    assert asked("paris hotles")[0] == lead
    assert asked("paris hotles", *titles)[0] == lead
    # a new slip: only the hits check can say that it finds nothing
    assert asked("paris hotlse", *titles)[0].startswith("paris hotels  [people who found nothing")
    assert not any("people" in line for line in asked("paris hotlse"))
    assert not any("people" in line for line in asked("rome", *titles))
    with pytest.raises(InputError, match="a popularity model; make one with --kind rescue"):
        run("suggest", tmp_path / "model", "x", "--rescue", tmp_path / "model")
    with pytest.raises(InputError, match="hits"):
        run("fit", data, "--kind", "adjacency", *titles, "--out", tmp_path / "other")


def test_a_made_up_log_comes_with_what_its_site_has(tmp_path: Path) -> None:
    run("synth", tmp_path / "log.tsv", "--sessions", "50", "--titles", tmp_path / "titles")
    titles = (tmp_path / "titles").read_text().splitlines()
    assert titles == sorted(set(titles))
    assert len(titles) > 50
