"""Returning visitors: candidates, features, the fitted model and what its folder keeps."""

import json
import math
import random
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from nextquery import PreparedData, load, prepare
from nextquery.artifacts import further_entries, publish, write_manifest
from nextquery.cli.main import app
from nextquery.errors import ArtifactError, InputError
from nextquery.suggesters import returning_fit
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.returning import (
    FEATURES,
    PastQuery,
    Regression,
    Returning,
    ReturningSettings,
    candidate_features,
)
from nextquery.suggesters.returning_fit import fit_returning, read_requests

HOUR = 3600.0
DAY = 24 * HOUR
START = datetime(2024, 1, 1)


def habits() -> list[dict[str, str]]:
    """40 users over 60 days: after `news` each types a query that nobody else types."""
    draw = random.Random(3)
    rows = []
    for user in range(40):
        for visit in range(30):
            time = START + timedelta(days=2 * visit, minutes=draw.randrange(2000))
            things = [f"thing {draw.randrange(60)}" for _ in range(2)]
            queries = ["news", f"my blog {user}"] if draw.random() < 0.4 else things
            for minute, query in enumerate(queries):
                moment = (time + timedelta(minutes=minute)).isoformat(" ")
                rows.append({"user": f"u{user}", "time": moment, "query": query, "click": "x"})
    return rows


@pytest.fixture(scope="module")
def habit_data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    folder = tmp_path_factory.mktemp("habits") / "data"
    return prepare(pl.DataFrame(habits()), folder, spelling=False, min_users=3)


@pytest.fixture(scope="module")
def model_folder(habit_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("returning") / "model"
    settings = ReturningSettings(sessions=200, shown=1.0, ridge=1.0)
    fit_returning(habit_data, settings).save(out)
    return out


def row_of(text: str, texts: list[str], rows: np.ndarray) -> dict[str, float]:
    return dict(zip(FEATURES, rows[texts.index(text)].tolist(), strict=True))


def test_features_by_hand() -> None:
    now = 100 * DAY
    history = [
        PastQuery("rome metro map", now - HOUR, 2),
        PastQuery("weather", now - 2 * DAY - HOUR, 5),
        PastQuery("rome hotels", now - 2 * DAY - 1.5 * HOUR, 1),
    ]
    context = ["rome airport", "rome hotels"]
    texts, rows = candidate_features(context, history, now)
    assert texts == ["rome airport", "rome metro map", "weather"]  # never the last query
    weather = row_of("weather", texts, rows)
    assert weather["log_count"] == pytest.approx(math.log(6))
    assert weather["log_count_last_query"] == pytest.approx(math.log(2))
    assert weather["log_age"] == pytest.approx(math.log1p(49 * HOUR))
    assert weather["rank"] == 2
    assert weather["followed_last_query"] == 1  # half an hour after it was typed the last time
    metro = row_of("rome metro map", texts, rows)
    assert metro["word_overlap"] == pytest.approx(1 / 4)
    assert metro["session_overlap"] == pytest.approx(1 / 3)
    assert (metro["in_session"], metro["followed_last_query"]) == (0, 0)
    airport = row_of("rome airport", texts, rows)
    assert (airport["in_session"], airport["rank"], airport["log_age"]) == (1, 0, 0)


def test_a_time_in_the_future_is_now() -> None:
    texts, rows = candidate_features(["a"], [PastQuery("b", 2e9)], 1e9)
    assert row_of("b", texts, rows)["log_age"] == 0
    assert np.isfinite(rows).all()


def test_requests_have_only_what_was_before(habit_data: PreparedData) -> None:
    past = read_requests(habit_data, "test", 1000, 0)
    assert past
    for request in past:
        assert all(entry.time < request.now for entry in request.history)
    repeated = [request for request in past if request.context[-1] == "news"]
    assert repeated
    assert all(request.next_query in {e.text for e in request.history} for request in repeated)
    assert all(request.returning for request in past)


def test_single_searches_count_as_past(habit_data: PreparedData) -> None:
    """A session of one query is only in the journal."""
    lonely = [{"user": f"u{u}", "time": "2023-12-30 12:00:00", "query": "alone", "click": "x"}
              for u in range(40)]  # fmt: skip
    data = prepare(
        pl.DataFrame([*habits(), *lonely]),
        habit_data.path.parent / "lonely",
        spelling=False,
    )
    past = read_requests(data, "test", 1000, 0)
    assert all("alone" in {entry.text for entry in request.history} for request in past)


def test_the_habit_is_learnt(model_folder: Path) -> None:
    model = Returning.load(model_folder)
    now = START.timestamp() + 90 * DAY
    history = [
        PastQuery("thing 9", now - 0.5 * DAY, 1),
        PastQuery("my blog 77", now - DAY, 5),
        PastQuery("news", now - DAY - 60, 6),
    ]
    shown = model.again(["news"], history, now)
    assert shown[0].text == "my blog 77"
    assert shown[0].source == "typed before"
    assert shown[0].score > 2 * (shown[1].score if len(shown) > 1 else 0.0)
    assert "news" not in {suggestion.text for suggestion in shown}
    probabilities = dict(model.probabilities(["news"], history, now))
    assert probabilities["my blog 77"] == shown[0].score
    first, second = (value for _, value in model.probabilities(["news"], history, now))
    alone = model.again(["news"], history, now, threshold=first)
    assert len(alone) == (2 if second >= first * model.further else 1)
    assert model.again(["news"], history, now, n=0) == []
    assert model.again(["news"], history, now, threshold=1.0) == []


def test_nothing_without_a_history(model_folder: Path) -> None:
    model = Returning.load(model_folder)
    assert model.again(["a", "b", "c"], [], 1e9, threshold=0.0) == []
    assert model.again([], [PastQuery("a", 1e9)], 1e9, threshold=0.0)[0].text == "a"


def test_blocklist_personal_data_and_hits_apply_but_not_k(
    model_folder: Path, tmp_path: Path
) -> None:
    now = 1e9
    texts = ["zebra crossing 41", "forbidden thing", "jane.doe@example.org", "xylophone " * 12]
    history = [PastQuery(text.strip(), now - HOUR) for text in texts]

    def shown(model: Returning) -> set[str]:
        return {query.text for query in model.again(["news"], history, now, 9, threshold=0.0)}

    assert shown(Returning.load(model_folder)) == {"zebra crossing 41", "forbidden thing"}
    blocklist = tmp_path / "blocklist.txt"
    blocklist.write_text("forbidden\n")
    assert shown(Returning.load(model_folder, blocklist)) == {"zebra crossing 41"}
    with_hits = Returning.load(model_folder, None, lambda query: "zebra" not in query)
    assert shown(with_hits) == {"forbidden thing"}
    assert {query.text for query in with_hits.complete("z", history)} == set()


def test_completions_begin_with_the_prefix_newest_first(model_folder: Path) -> None:
    model = Returning.load(model_folder)
    history = [PastQuery("rome hotels", 9, 4), PastQuery("paris", 8), PastQuery("rome", 7)]
    assert [query.text for query in model.complete("ro", history)] == ["rome hotels", "rome"]
    assert [query.text for query in model.complete("rome", history)] == ["rome hotels"]
    assert model.complete("ro", history, 1)[0].score == 4


def test_the_folder_keeps_no_query_of_a_single_user(model_folder: Path) -> None:
    files = [path for path in model_folder.rglob("*") if path.is_file()]
    assert files
    assert not any(b"my blog" in path.read_bytes() for path in files)


def test_a_saved_model_opens_the_same(model_folder: Path, tmp_path: Path) -> None:
    model = Returning.load(model_folder)
    model.save(tmp_path / "copy")
    copy = Returning.load(tmp_path / "copy")
    history = [PastQuery(f"my blog {n}", 1e9 - n * DAY, 1 + n) for n in range(20)]
    expected = model.probabilities(["news"], history, 1e9)
    assert copy.probabilities(["news"], history, 1e9) == expected
    assert (copy.threshold, copy.further) == (model.threshold, model.further)
    assert copy.validation == model.validation
    with pytest.raises(ArtifactError, match="model of returning visitors"):
        load(model_folder)


def test_probabilities_are_calibrated(habit_data: PreparedData, model_folder: Path) -> None:
    """On the validation sessions, the mean probability is the share of candidates that came."""
    model = Returning.load(model_folder)
    past = read_requests(habit_data, "validation", 1000, 0)
    expected = happened = 0.0
    for request in past:
        for text, probability in model.probabilities(request.context, request.history, request.now):
            expected += probability
            happened += text == request.next_query
    assert expected == pytest.approx(happened, rel=0.2)


@pytest.mark.parametrize("shown", [0.6, 0.8])
def test_the_upper_bound_of_how_often_something_is_shown(
    habit_data: PreparedData, shown: float
) -> None:
    model = fit_returning(habit_data, ReturningSettings(sessions=400, shown=shown))
    requests = read_requests(habit_data, "validation", 400, 0, last_only=True)
    is_shown = [bool(model.again(case.context, case.history, case.now)) for case in requests]
    assert model.validation["shown"] == pytest.approx(np.mean(is_shown))
    assert shown - 0.15 < np.mean(is_shown) < shown - 0.01
    assert 0 < model.threshold < 0.5


def test_nothing_unlikely_is_shown_on_a_log_without_habits() -> None:
    likeliest = np.linspace(0.001, 0.015, 50)
    assert returning_fit._lowest_threshold(likeliest, np.arange(50), 1.0) == 0.02
    assert returning_fit._lowest_threshold(likeliest * 10, np.arange(50), 0.5) > 0.02


def test_what_is_likelier_than_not_is_always_shown(habit_data: PreparedData) -> None:
    model = fit_returning(habit_data, ReturningSettings(sessions=400, shown=0.01))
    assert model.threshold == 0.5


def test_a_higher_precision_leaves_out_further_queries(habit_data: PreparedData) -> None:
    def fitted(precision: float) -> Returning:
        settings = ReturningSettings(sessions=400, shown=0.8, precision=precision)
        return fit_returning(habit_data, settings)

    many, few = fitted(0.0), fitted(1000.0)
    assert many.threshold == few.threshold
    assert many.further < few.further
    assert many.validation["hit"] >= few.validation["hit"]
    assert many.validation["precision"] <= few.validation["precision"]


def test_a_log_without_returning_visitors_is_refused(tmp_path: Path) -> None:
    moments = [(n, START + timedelta(minutes=60 * (n // 2) + n)) for n in range(400)]
    rows = [
        {"user": f"u{n // 2}", "time": moment.isoformat(" "), "query": f"q {n}", "click": "x"}
        for n, moment in moments
    ]
    data = prepare(pl.DataFrame(rows), tmp_path / "data", spelling=False)
    with pytest.raises(InputError, match="typed before by the same user"):
        fit_returning(data)
    with pytest.raises(InputError, match="does not ask what finds something"):
        fit_model(Returning, data, ReturningSettings(), hits=lambda _: True)


def test_folders_of_earlier_versions(model_folder: Path, tmp_path: Path) -> None:
    """They say `learner`; one with boosted trees is refused by name."""
    for learner in ("regression", "trees"):
        folder = tmp_path / learner
        shutil.copytree(model_folder, folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["settings"]["learner"] = "auto"
        manifest["learner"] = learner
        entries = further_entries(manifest)
        write_manifest(folder, "returning", entries)
    assert Returning.load(tmp_path / "regression").settings == Returning.load(model_folder).settings
    with pytest.raises(ArtifactError, match="boosted trees, no longer supported; fit it"):
        Returning.load(tmp_path / "trees")


def test_altered_models_are_refused(model_folder: Path, tmp_path: Path) -> None:
    model = Returning.load(model_folder)
    model.learnt = Regression(np.append(model.learnt.weights[:-1], np.nan))
    model.save(tmp_path / "broken")
    with pytest.raises(ArtifactError, match="not finite"):
        Returning.load(tmp_path / "broken")
    model.further = 2.0
    model.learnt = Returning.load(model_folder).learnt
    model.save(tmp_path / "share")
    with pytest.raises(ArtifactError, match="0 to 1"):
        Returning.load(tmp_path / "share")


def test_a_folder_that_names_no_learner_has_a_regression(tmp_path: Path) -> None:
    """As the first version wrote it."""
    weights = np.linspace(-1, 1, len(FEATURES) + 1)
    entries = {
        "settings": {"sessions": 10, "shown": 0.5, "ridge": 1.0, "seed": 0},
        "features": list(FEATURES), "threshold": 0.5, "validation": {},
    }  # fmt: skip
    with publish(tmp_path / "old", "returning", entries) as folder:
        np.save(folder / "weights.npy", weights)
    model = Returning.load(tmp_path / "old")
    assert isinstance(model.learnt, Regression)
    assert (model.learnt.weights.tolist(), model.further) == (weights.tolist(), 0.25)


def test_the_command_fits_it_and_says_what_it_gives(
    habit_data: PreparedData, tmp_path: Path
) -> None:
    words = ["fit", str(habit_data.path), "--kind", "returning", "--out", str(tmp_path / "model")]
    result = CliRunner().invoke(app, [*words, "--set", "sessions=100", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["settings"]["sessions"] == 100
    [sentence] = document["advice"]
    assert "of what it shows is the next query" in sentence
    assert Returning.load(tmp_path / "model").settings.sessions == 100
    refused = CliRunner().invoke(app, ["fit", *words[1:3], "mine", *words[4:]])
    assert "rescue, returning" in str(refused.output) + str(refused.exception)
