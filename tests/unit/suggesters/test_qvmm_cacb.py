"""Sequence models: QVMM and CACB, by hand."""

from itertools import product
from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import InputError
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.cacb import CACB, CACBSettings
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM, QVMMSettings

from .conftest import DataMaker, texts

SESSIONS = [
    ("ann", ["a", "b", "c"]),
    ("bob", ["a", "b", "c"]),
    ("cat", ["x", "b", "d"]),
    ("dan", ["x", "b", "d"]),
    ("eve", ["x", "b", "c"]),
]
EXACT = QVMMSettings(depth=5, pruning=0, escape=1)


@pytest.fixture
def model(data_of: DataMaker) -> QVMM:
    return fit_model(QVMM, data_of(SESSIONS), EXACT)


def test_probabilities_by_hand(model: QVMM) -> None:
    # 15 queries: c 3, d 2. After b: c 3, d 2. After x b: d 2, c 1.
    after_b = {"c": (3 + 3 / 16) / 6, "d": (2 + 2 / 16) / 6}
    after_x_b = {"c": (1 + after_b["c"]) / 4, "d": (2 + after_b["d"]) / 4}
    scored = model.score(["x", "b"], ["c", "d"])
    assert [item.log_likelihood for item in scored] == pytest.approx(
        [log(after_x_b["c"]), log(after_x_b["d"])]
    )
    result = model.suggest(["x", "b"], 5)
    assert texts(result) == ["d", "c"]
    assert [item.score for item in result] == pytest.approx(
        [log(after_x_b["d"]), log(after_x_b["c"])]
    )


def test_an_unknown_text_escapes_through_every_length(model: QVMM) -> None:
    (scored,) = model.score(["x", "b"], ["zyzzyva"])
    # Twice one of (total + 1): 3 followers of x b, 5 of b; then the unknown query's prior:
    # 1 of 16 queries, spelt with an unknown word and an end among 15 words, 15 ends and 1.
    assert scored.log_likelihood == pytest.approx(log(1 / 4 * 1 / 6 * 1 / 16 * 1 / 31 * 15 / 31))


def test_followers_of_a_shorter_context_fill_the_list(model: QVMM) -> None:
    result = model.suggest(["a", "b"], 5)
    assert texts(result) == ["c", "d"]
    assert result[1].source == "seen in the log (2 times after the last query)"


@pytest.mark.parametrize("length", [1, 2, 3])
def test_back_off_is_used_exactly_when_the_context_is_unseen(model: QVMM, length: int) -> None:
    sequences = [queries for _, queries in SESSIONS]
    for context in product("abcdx", repeat=length):
        followed = any(
            list(context) == queries[start : start + length]
            for queries in sequences
            for start in range(len(queries) - length)
        )
        assert (model.matched(context) == length) == followed


def test_depth_limits_how_far_back_it_looks(data_of: DataMaker) -> None:
    data = data_of(SESSIONS)
    shallow = fit_model(QVMM, data, QVMMSettings(depth=1, pruning=0, escape=1))
    adjacency = fit_model(Adjacency, data)
    assert shallow.matched(["x", "b"]) == 1
    for one, other in zip(shallow.suggest(["x", "b"]), adjacency.suggest(["x", "b"]), strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score)


def test_pruning_leaves_out_what_says_nothing_new(data_of: DataMaker) -> None:
    # After y b the followers are spread exactly as after b alone; after a b they are not.
    sessions = [
        *[("u", [first, "b", last]) for first in "y" for last in "cd"],
        *[("u", ["a", "b", "c"]), ("u", ["z", "b", "d"])],
    ]
    data = data_of(sessions)
    pruned = fit_model(QVMM, data, QVMMSettings(pruning=0.1, escape=1))
    assert fit_model(QVMM, data, EXACT).matched(["y", "b"]) == 2
    assert pruned.matched(["y", "b"]) == 1
    assert pruned.matched(["a", "b"]) == 2  # KL of (1, 0) from (1/2, 1/2) is log 2 = 0.69
    assert fit_model(QVMM, data, QVMMSettings(pruning=0.7)).matched(["a", "b"]) == 1


def test_a_last_query_never_seen_is_shortened_and_said_so(data_of: DataMaker) -> None:
    sessions = [("u", ["old", "new york", "boston"])]
    model = fit_model(QVMM, data_of(sessions), EXACT)
    (result,) = model.suggest(["old", "new york pizza"])
    assert result.text == "boston"
    assert result.source.endswith("last 2 queries, read as 'new york': it was never seen)")
    strict = fit_model(QVMM, data_of(sessions), QVMMSettings(shorten=False))
    assert strict.suggest(["old", "new york pizza"]) == []


def test_a_rare_query_breaks_the_sequence(data_of: DataMaker) -> None:
    sessions = [("ann", ["a", "secret", "b"]), ("bob", ["a", "b"]), ("cat", ["b", "a", "b"])]
    model = fit_model(QVMM, data_of(sessions, min_users=2), EXACT)
    assert texts(model.suggest(["a"])) == ["b"]
    assert model.suggest(["a"])[0].source.startswith("seen in the log (2 times")
    assert model.matched(["a", "secret"]) == 0


queries = st.sampled_from(["a", "b", "c", "a b", "b c", "c a b"])
logs = st.lists(st.lists(queries, min_size=2, max_size=5), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    logs,
    st.lists(queries, max_size=4),
    st.sampled_from([0.0, 0.2, 2.0]),
    st.sampled_from([0.5, 1.0, 10.0]),
)
def test_probabilities_sum_to_at_most_one(
    data_of: DataMaker,
    sessions: list[list[str]],
    context: list[str],
    pruning: float,
    escape: float,
) -> None:
    data = data_of([("u", session) for session in sessions])
    model = fit_model(QVMM, data, QVMMSettings(pruning=pruning, escape=escape))
    known = sorted({query for session in sessions for query in session})
    unknown = ["zyzzyva", "a zyzzyva", "b a c b a"]
    probabilities = [exp(item.log_likelihood) for item in model.score(context, known + unknown)]
    assert 0 < sum(probabilities) <= 1
    # What the model suggests are the most probable of all that it could.
    suggested = model.suggest(context, 3)
    scored = {item.text: item.log_likelihood for item in model.score(context, known)}
    assert all(item.score == pytest.approx(scored[item.text]) for item in suggested)


CONCEPT_SESSIONS = [
    ("ann", ["cheap flights", "paris hotels", "eiffel tower"]),
    ("bob", ["low cost flights", "hotels in paris", "louvre"]),
    ("cat", ["cheap flights", "hotels in paris", "eiffel tower"]),
    ("dan", ["used cars", "car loans"]),
]
CLICKS = [
    ("ann", "cheap flights", "flights.example"),
    ("bob", "low cost flights", "flights.example"),
    ("ann", "paris hotels", "hotels.example"),
    ("bob", "hotels in paris", "hotels.example"),
    ("cat", "hotels in paris", "hotels.example"),
    ("ann", "eiffel tower", "eiffel.example"),
    ("dan", "used cars", "cars.example"),
]
PLAIN = CACBSettings(pruning=0, escape=1)


@pytest.fixture
def cacb(data_of: DataMaker) -> CACB:
    return fit_model(CACB, data_of(CONCEPT_SESSIONS, CLICKS), PLAIN)


def _concept(cacb: CACB, query: str) -> int:
    known = cacb.background.id(query)
    assert known is not None
    return int(cacb.concepts.of_query[known])


def test_queries_with_the_same_clicks_are_one_concept(cacb: CACB) -> None:
    assert _concept(cacb, "cheap flights") == _concept(cacb, "low cost flights")
    assert _concept(cacb, "paris hotels") == _concept(cacb, "hotels in paris")
    assert len(cacb.concepts.counts) == 6  # flights, hotels, eiffel, louvre, cars, loans


def test_a_concept_is_shown_as_its_most_clicked_query(cacb: CACB) -> None:
    # Nobody went from low cost flights to anything but hotels in paris, twice clicked.
    (result,) = cacb.suggest(["low cost flights"])
    assert result.text == "hotels in paris"
    assert result.source == (
        "seen in the log (3 times after the last topic, for 2 queries of one topic)"
    )


def test_a_shown_query_is_never_one_of_the_context(cacb: CACB) -> None:
    result = cacb.suggest(["hotels in paris", "cheap flights"], 1)
    assert texts(result) == ["paris hotels"]


def test_probabilities_of_cacb_by_hand(cacb: CACB) -> None:
    # Flights are followed by hotels 3 of 3 times; hotels are 3 of 11 queries, 2 of them "in".
    hotels = (3 + 3 / 12) / (3 + 1)
    assert cacb.suggest(["cheap flights"])[0].score == pytest.approx(log(hotels))
    scored = cacb.score(["cheap flights"], ["hotels in paris", "paris hotels", "louvre"])
    assert [exp(item.log_likelihood) for item in scored] == pytest.approx(
        [hotels * 2 / 3, hotels * 1 / 3, (0 + 1 / 12) / 4]
    )


def test_the_context_decides_between_concepts(data_of: DataMaker) -> None:
    sessions = [
        *[("u", ["wildlife", "jaguar", "leopard"])] * 2,
        *[("u", ["dealer", "jaguar", "used cars"])] * 2,
    ]
    clicks = [("u", query, query) for query in ("wildlife", "jaguar", "leopard")]
    cacb = fit_model(CACB, data_of(sessions, clicks), PLAIN)
    assert cacb.suggest(["wildlife", "jaguar"], 1)[0].text == "leopard"
    assert cacb.suggest(["dealer", "jaguar"], 1)[0].text == "used cars"


def test_repeats_of_a_concept_count_once(data_of: DataMaker) -> None:
    sessions = [("u", ["cheap flights", "low cost flights", "paris hotels"])]
    cacb = fit_model(CACB, data_of(sessions, CLICKS[:2]), PLAIN)
    # The context is one topic, however many of its queries were typed.
    (result,) = cacb.suggest(["low cost flights", "cheap flights"])
    assert result.text == "paris hotels"
    assert "after the last topic" in result.source


def test_a_log_without_clicks_says_so_and_offers_words(data_of: DataMaker) -> None:
    data = data_of(CONCEPT_SESSIONS)
    with pytest.raises(InputError, match=r"no clicks.*`clusters=words`"):
        fit_model(CACB, data)
    cacb = fit_model(CACB, data, CACBSettings(clusters="words", diameter=1.2))
    assert _concept(cacb, "cheap flights") == _concept(cacb, "low cost flights")
    assert _concept(cacb, "cheap flights") != _concept(cacb, "used cars")
    assert cacb.suggest(["low cost flights"])[0].text == "hotels in paris"
