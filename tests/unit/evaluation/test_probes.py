"""Probes: boundaries, gates, hidden intent, n-grams and the paper's examples."""

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery import __version__
from nextquery.artifacts import publish
from nextquery.errors import InputError
from nextquery.evaluation.paper import (
    FIGURE_7,
    PAPER,
    TABLE_1,
    missing_words,
    paper_examples,
    training_table,
)
from nextquery.evaluation.probes.gates import (
    GROUPS,
    BoundaryScore,
    GateComparison,
    best_threshold,
    boundary_result,
    boundary_score,
    gaps_of_file,
    gate_example,
    gate_result,
    project,
)
from nextquery.evaluation.probes.likelihood import (
    FEWEST,
    KneserNey,
    intent_cases,
    intent_result,
    ngram_perplexities,
    traces,
)
from nextquery.evaluation.scenarios import Noise
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.synthetic.log import make_log
from nextquery.ranking.cases import BackgroundCounts
from nextquery.records import ScoredQuery, Session
from nextquery.suggesters.base import Floats, Scorer
from nextquery.suggesters.neural import HREDSuggester
from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import Vocabulary


class Topical:
    """A gate that opens wide when a query shares no word with the one before it."""

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[Floats]:
        return [self.gates(context) for context in contexts]

    def gates(self, context: Sequence[str]) -> Floats:
        last, before = set(context[-1].split()), set(context[-2].split())
        return np.array([[0.0], [0.1 if last & before else 0.9]], dtype=np.float32)


def labelled(path: Path, times: bool = True) -> Path:
    lines = ["user,query,session" + (",time" if times else "")]
    for number in range(60):
        topic = number // 3
        minute = f",2006-05-01 {topic:02d}:{number % 3:02d}:00" if times else ""
        lines.append(f"u1,topic{topic} word{number},s{topic}{minute}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_precision_recall_and_f1_by_hand() -> None:
    truth = np.array([True, False, True, True])
    scores = np.array([0.9, 0.8, 0.7, 0.1])

    assert boundary_score(0.7, scores, truth) == BoundaryScore(2 / 3, 2 / 3, 2 / 3)
    assert boundary_score(2.0, scores, truth).f1 == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=20))
def test_no_threshold_is_better_than_the_chosen_one(rows: list[tuple[int, bool]]) -> None:
    scores = np.array([score for score, _ in rows], dtype=np.float64)
    truth = np.array([boundary for _, boundary in rows])
    best = boundary_score(best_threshold(scores, truth), scores, truth).f1

    assert best == pytest.approx(max(boundary_score(t, scores, truth).f1 for t in scores))


def test_without_streams_to_learn_from_or_to_test_there_are_no_systems(tmp_path: Path) -> None:
    gaps = gaps_of_file(labelled(tmp_path / "labels.csv"))
    models = {"topical": Topical()}
    nothing_to_learn = boundary_result([], gaps, models, iter)
    assert (nothing_to_learn.gaps, nothing_to_learn.boundaries) == (59, 19)
    assert (nothing_to_learn.tuning_gaps, nothing_to_learn.systems) == (0, {})
    assert boundary_result(gaps, [], models, iter).systems == {}
    assert boundary_result([], [], models, iter).gaps == 0
    assert best_threshold(np.array([]), np.array([], dtype=np.bool_)) == np.inf


def test_gates_that_know_the_topic_find_every_boundary(tmp_path: Path) -> None:
    gaps = gaps_of_file(labelled(tmp_path / "labels.csv"))
    systems = boundary_result(gaps[:30], gaps[30:], {"topical": Topical()}, iter).systems

    assert len(gaps) == 59
    assert gaps[2].boundary
    assert gaps[2].minutes == 58.0
    assert systems["topical gates"].f1 == 1.0
    assert systems["minutes"].f1 == 1.0
    assert systems["every gap"].recall == 1.0
    assert systems["every gap"].precision < 0.4
    untimed = gaps_of_file(labelled(tmp_path / "labels.csv", times=False))
    assert "minutes" not in boundary_result(gaps[:30], untimed[30:], {}, iter).systems
    assert "minutes" not in boundary_result(untimed[:30], gaps[30:], {}, iter).systems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,query\nu,a\n", "lacks the column 'session'"),
        ("user,query,session,time\nu,a,1,yesterday\n", "'yesterday' is not a time"),
    ],
)
def test_a_file_without_labels_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        gaps_of_file(tmp_path / "labels.csv")


class Sceptic:
    """Updates fully on a first query, half on others, and hardly on noise."""

    def __init__(self, noise: float) -> None:
        self.noise = noise

    def update_gates_many(self, contexts: Sequence[Sequence[str]]) -> list[Floats]:
        return [self.gates(context) for context in contexts]

    def gates(self, context: Sequence[str]) -> Floats:
        rows = [
            1.0 if position == 0 else self.noise if query == "google" else 0.5
            for position, query in enumerate(context)
        ]
        return np.repeat(np.array(rows, dtype=np.float32)[:, None], 4, axis=1)


BACKGROUND = BackgroundCounts({"google": 10}, {})
SESSIONS = [Session(n, "u", (f"a{n}", f"b{n}", f"c{n}", f"d{n}")) for n in range(200)]


def test_noise_is_compared_with_the_query_at_the_same_position() -> None:
    result = gate_result(Sceptic(0.1), SESSIONS, Noise(BACKGROUND, 0), iter)

    assert isinstance(result, GateComparison)
    assert result.own_query == pytest.approx(0.5)
    assert result.noisy_query == pytest.approx(0.1)
    assert result.difference == pytest.approx(-0.4)
    assert result.noise_updates_less == 1.0
    assert result.by_position == pytest.approx({"1": 1.0, "2": 0.5, "3": 0.5})
    # of 4 places per context the first and the one after the end have no query to compare with
    assert 60 < result.contexts < 140
    alike = gate_result(Sceptic(0.5), SESSIONS, Noise(BACKGROUND, 0), iter)
    assert isinstance(alike, GateComparison)
    assert (alike.difference, alike.p) == (0, 1.0)


def test_the_example_ends_in_noise() -> None:
    sessions = [Session(n, "u", (f"a{n}", f"b{n}", f"c{n}")) for n in range(20)]
    known = {"google", "a7", "b7", "a9", "b9", *(f"a{n}" for n in range(20))}
    noise = Noise(BACKGROUND, 0)
    assert gate_example(Sceptic(0.1), sessions, noise, {"google"}) is None
    known |= {f"b{n}" for n in range(10, 20)}
    example = gate_example(Sceptic(0.1), sessions, noise, known)

    assert example is not None
    assert set(example.queries) <= known  # others were typed by fewer than K users
    assert example.queries[-1] == "google"
    assert np.shape(example.gates) == (3, 4)


def test_near_vectors_stay_near_and_the_plane_repeats_itself() -> None:
    generator = np.random.default_rng(0)
    centres = np.eye(3).repeat(12, axis=0) * 10
    vectors = (centres + generator.normal(0, 0.1, size=centres.shape)).astype(np.float32)
    texts = [f"text {number}" for number in range(36)]

    points = project(texts, vectors, seed=0)

    positions = np.array([[point.x, point.y] for point in points])
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (distances.argmin(axis=1) // 12 == np.arange(36) // 12).all()
    assert {point.group for point in points} <= set(range(GROUPS))
    assert points == project(texts, vectors, seed=0)


def sessions(count: int = 300, *, shuffled: bool = False) -> list[Session]:
    log = make_log(count, 3, shuffled=shuffled).queries
    texts = log.group_by("session", maintain_order=True).agg("text")
    return [Session(number, "user", tuple(queries)) for number, queries in texts.iter_rows()]


class Uniform:
    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        return [ScoredQuery(text, -5.0, 2) for text in candidates]


class LastTrace:
    """Predicts the intent of the last trace within a number of queries, and no outcome."""

    def __init__(self, reach: int) -> None:
        self._reach = reach

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        result = [traces()[query].intent for query in context[-self._reach :] if query in traces()]
        believed = result[-1] if result else None
        scores = (
            math.log(9.0) if traces()[text].intent == believed else 0.0 for text in candidates
        )
        return [ScoredQuery(text, score, 2) for text, score in zip(candidates, scores, strict=True)]


def test_cases_are_outcomes_after_a_trace_of_the_same_domain() -> None:
    session = Session(7, "user", ("backpacking rome", "paris", "google", "paris hostels"))
    [(case, distance)] = intent_cases([session], 10)
    assert distance == 3
    assert case.next_query == "paris hostels"
    assert case.context == session.queries[:3]
    assert len(case.candidates) == 16
    assert len({traces()[text].intent for text in case.candidates[:4]}) == 1


@pytest.mark.parametrize(
    "queries",
    [
        ("paris", "paris hostels"),  # nothing tells the intent
        ("backpacking rome", "paris"),  # no outcome
        ("paris hostels",),
    ],
)
def test_no_case_without_a_trace_or_an_outcome(queries: tuple[str, ...]) -> None:
    assert not intent_cases([Session(1, "user", queries)], 10)


def test_a_uniform_model_is_at_chance_at_every_distance() -> None:
    result = intent_result(Uniform(), sessions())
    assert result is not None
    assert result.nats == pytest.approx(math.log(16))
    assert result.intent == pytest.approx(0.25)
    assert [item.distance for item in result.by_distance] == [1, 2, 3, 4, 5]
    assert sum(item.cases for item in result.by_distance) == result.cases > 200
    for item in result.by_distance:
        assert item.nats == pytest.approx(math.log(16))


def test_a_model_of_two_queries_knows_the_intent_that_far() -> None:
    result = intent_result(LastTrace(2), sessions())
    assert result is not None
    near, farther = result.by_distance[:2], result.by_distance[2:]
    assert all(item.intent > 0.5 and item.nats < 2.3 for item in near)
    for item in farther:
        assert item.nats == pytest.approx(math.log(16))


def test_the_shuffled_control_has_nothing_to_see() -> None:
    made, control = (
        intent_result(LastTrace(9), sessions(2000, shuffled=shuffled), most=400)
        for shuffled in (False, True)
    )
    assert made is not None
    assert made.intent > 0.5
    assert control is not None
    assert 0.15 < control.intent < 0.35


def test_another_log_has_no_result() -> None:
    other = [Session(n, "user", ("red shoes", "blue shoes")) for n in range(FEWEST * 2)]
    assert intent_result(Uniform(), other) is None


A, B, END = 3, 4, 1


def encoded_sessions(*queries: list[int]) -> EncodedSessions:
    """One session of these queries over the symbols padding, end, unknown, a, b."""
    return EncodedSessions(
        words=np.array([word for query in queries for word in query], dtype=np.int32),
        query_starts=np.cumsum([0, *(len(query) for query in queries)]),
        session_starts=np.array([0]),
        session_ends=np.array([len(queries)]),
        ids=np.array([0]),
        vocabulary_size=5,
    )


def test_a_bigram_model_by_hand() -> None:
    model = KneserNey(encoded_sessions([A, B, END], [A, B, END], [A, END]), order=2)
    # Bigrams: (start a) 3, (a b) 2, (b end) 2, (a end) 1; so D_2 = 1 / (1 + 2 * 2) = 0.2.
    # Predecessors: a 1 (start), b 1 (a), end 2 (b, a); so D_1 = 2 / (2 + 2 * 1) = 0.5.
    # P_1(b) = (1 - 0.5) / 4 + 0.5 * 3 / 4 * 1/4 = 0.125 + 0.09375
    assert model.probability((B,)) == pytest.approx(0.21875)
    # P_2(b | a) = (2 - 0.2) / 3 + 0.2 * 2 / 3 * P_1(b)
    assert model.probability((A, B)) == pytest.approx(0.6 + 0.4 / 3 * 0.21875)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("history", [(0, 0), (A, B), (B, A), (2, 2)])
def test_probabilities_sum_to_one(order: int, history: tuple[int, int]) -> None:
    model = KneserNey(encoded_sessions([A, B, END], [A, B, B, END], [A, END], [B, END]), order)
    before = history[len(history) - order + 1 :] if order > 1 else ()
    total = sum(model.probability((*before, word)) for word in range(1, 5))
    assert total == pytest.approx(1.0)


def test_the_perplexity_counts_every_symbol() -> None:
    model = KneserNey(encoded_sessions([A, B, END], [A, END]), order=3)
    result = model.measure(encoded_sessions([A, B, END], [9, END]))
    assert result.symbols == 5
    assert result.known_symbols == 4
    assert result.known_log_likelihood > result.log_likelihood


def test_each_order_in_a_models_own_words(small_data: PreparedData) -> None:
    few, many = (Vocabulary(small_data.words()[:size]) for size in (50, 2000))
    result = ngram_perplexities(small_data, many, iter)

    assert [item.order for item in result] == [1, 2, 3]
    assert len({item.symbols for item in result}) == 1
    # the synthetic log's queries have structure: pairs say more than words alone
    assert result[1].perplexity < 0.5 * result[0].perplexity
    assert result[0].fitted_sessions > result[0].measured_sessions > 0
    # with few words most symbols are the unknown one, which is easy to predict
    assert ngram_perplexities(small_data, few, iter)[0].perplexity < result[0].perplexity


MakeModel = Callable[[tuple[str, ...]], HREDSuggester]


@pytest.fixture
def examples_words() -> tuple[str, ...]:
    contexts = [*TABLE_1, FIGURE_7]
    return tuple(dict.fromkeys(w for context in contexts for q in context for w in q.split()))


def test_a_model_that_knows_all_words_answers_all(
    untrained: MakeModel, examples_words: tuple[str, ...]
) -> None:
    result = paper_examples({"hred": untrained(examples_words), "other": object()})

    assert list(result) == ["hred"]
    assert [item.context for item in result["hred"].table_1] == list(TABLE_1)
    assert all(0 < len(item.suggestions) <= 5 for item in result["hred"].table_1)
    figure = result["hred"].figure_7
    assert figure is not None
    assert figure.queries == ("airlines", "united airlines", "google")
    assert len(figure.gates) == 3
    assert all(0 <= gate <= 1 for row in figure.gates for gate in row)


def test_a_missing_word_is_named_and_nothing_is_asked(
    untrained: MakeModel, examples_words: tuple[str, ...]
) -> None:
    model = untrained(tuple(word for word in examples_words if word not in ("erie", "google")))
    result = paper_examples({"hred": model})["hred"]

    assert [item.missing_words for item in result.table_1] == [(), ("erie",)]
    assert result.table_1[1].suggestions == ()
    assert result.figure_7 is None
    assert missing_words(model, ["lake erie", "erie google"]) == ("erie", "google")


def test_size_settings_and_best_validation_of_a_folder(
    tmp_path: Path, shared_words: Scorer
) -> None:
    entries = {"model": {"copy": True}, "training": {"steps": 7}}
    lines = [{"step": 1, "loss": 3.0}, *({"step": s, "validation_nll": 2 / s} for s in (2, 4, 3))]
    with publish(tmp_path / "model", "hred", entries) as folder:
        (folder / "weights.safetensors").write_bytes(bytes(2_000_000))
        (folder / "vocabulary.txt").write_text("a\n")
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    result = training_table({"hred": tmp_path / "model", "mine": shared_words})

    assert list(result) == ["hred"]
    assert result["hred"].megabytes == 2.0
    assert result["hred"].model == {"copy": True}
    assert result["hred"].training == {"steps": 7}
    assert result["hred"].best_validation == {"step": 4, "validation_nll": 0.5}


def test_the_papers_gains_follow_from_its_mrrs() -> None:
    assert PAPER["next_query"].gain("baseline") == pytest.approx(0.033, abs=0.0005)
    assert PAPER["robust"].gain("baseline") == pytest.approx(0.099, abs=0.0005)
    assert PAPER["long_tail"].gain("adj") == pytest.approx(0.857, abs=0.0005)


def test_citations_name_the_present_version() -> None:
    root = Path(__file__).parents[3]
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    page = (root / "docs" / "how-to" / "experiments.md").read_text(encoding="utf-8")
    assert re.findall("^version: (.*)$", citation, re.MULTILINE) == [__version__]
    assert f"version = {{{__version__}}}" in page
    for text in (citation, page):
        assert "10.1145/2806416.2806493" in text
