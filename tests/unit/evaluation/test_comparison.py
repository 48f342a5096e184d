"""Measures of rankings, significance by user and by case, and parts of the cases."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from nextquery.errors import InputError
from nextquery.evaluation.comparison import (
    ADJ,
    BASELINE,
    FEWEST_CASES,
    RankedSystem,
    bootstrap_interval,
    bootstrap_intervals,
    compare,
    compared_pairs,
    holm,
    paired_t_test,
    paired_t_test_by_user,
    qualities,
    rank_systems,
    users_needed,
)
from nextquery.evaluation.rankers import RankerGroup
from nextquery.evaluation.scenario_features import by_last_click, clicked_endings, useful_scores
from nextquery.evaluation.scenario_run import (
    by_context_length,
    by_session_length,
    by_user_group,
    noisy_contexts,
    read_user_groups,
    session_lengths,
    single_features,
)
from nextquery.logs.privacy import pseudonym
from nextquery.ranking.cases import BackgroundCounts, CaseSet, Floats, RankingCase
from nextquery.ranking.features import BASELINE_FEATURES, FeatureTable
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import FORMS, CaseScorer
from nextquery.records import ScoredQuery

TOP = RankedSystem("baseline", "hred")


def test_quality_by_hand() -> None:
    ranks = np.array([[1, 2, 10, 4], [1, 4, 10, 2]])
    [result] = qualities({BASELINE: ranks}, list("aabc")).values()

    assert result.cases == 4
    assert result.mrr == pytest.approx((1 + 0.375 + 0.1 + 0.375) / 4)
    assert result.hit_1 == pytest.approx(1 / 4)
    assert result.hit_5 == pytest.approx(3 / 4)
    assert result.mrr_by_seed == pytest.approx((1.85 / 4, 1.85 / 4))
    assert result.seed_error == pytest.approx(0.0)
    assert result.mrr_low < result.mrr < result.mrr_high
    assert result.interval != (result.mrr_low, result.mrr_high)


def test_gain_and_test_are_of_the_means_over_seeds() -> None:
    ranks = {ADJ: np.array([[2, 2, 1, 2]]), BASELINE: np.array([[1, 1, 1, 2], [1, 2, 1, 2]])}
    [result] = compare(ranks, [(BASELINE, ADJ)], list("abcd"))

    assert (result.a, result.b) == ("baseline", "adj")
    assert result.relative == pytest.approx((1 + 0.75 + 1 + 0.5) / (0.5 + 0.5 + 1 + 0.5) - 1)
    assert result.difference == pytest.approx(0.1875)
    assert result.difference_low <= result.difference <= result.difference_high
    # differences .5, .25, 0, 0: t = .1875 / (.2394 / 2) = 1.567 with 3 degrees of freedom
    assert result.p == pytest.approx(0.215, abs=0.001)
    assert result.p_by_user == pytest.approx(result.p), "each user has one case"
    assert result.seed_error == pytest.approx(0.0625)  # differences .25 and .125


def test_significant_is_by_user_and_after_correction() -> None:
    """One person with most of the cases makes a difference by case, but none by user."""
    generator = np.random.default_rng(1)
    worse = generator.integers(2, 6, size=(1, 400))
    one_person = worse.copy()
    one_person[:, :200] = 1
    ranks = {ADJ: worse, BASELINE: one_person, TOP: np.ones((1, 400), dtype=np.int64)}
    users = ["ann"] * 200 + [f"user {number}" for number in range(200)]

    uneven, even = compare(ranks, [(BASELINE, ADJ), (TOP, ADJ)], users)

    assert uneven.p < 1e-6
    assert uneven.significant is False
    assert uneven.difference_low > 0
    assert uneven.difference_low_by_user == pytest.approx(0.0)
    assert even.p_by_user is not None
    assert even.p_holm == pytest.approx(min(1.0, 2 * even.p_by_user))


def test_holm_by_hand() -> None:
    # .005 * 4, .011 * 3, .02 * 2, .04 * 1; the third is not below the second
    assert holm([0.04, 0.005, 0.02, 0.011]) == pytest.approx([0.04, 0.02, 0.04, 0.033])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_paired_t_test_by_hand() -> None:
    # differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t = 3.464 with 2 degrees of freedom
    first, second = np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0])
    assert paired_t_test(first, second) == pytest.approx(0.0742, abs=1e-4)
    assert paired_t_test(first, first) == 1.0
    # sums 4 and 2 and 3 of three users: mean 3, standard error 1/sqrt(3), t = 5.196
    differences = np.array([1.0, 3.0, 2.0, 3.0])
    p = paired_t_test_by_user(differences, np.zeros(4), ["ann", "ann", "bob", "cy"])
    assert p == pytest.approx(0.0351, abs=1e-4)


def test_bootstrap_interval_has_the_width_theory_says() -> None:
    values = np.random.default_rng(5).normal(3.0, 2.0, size=4000)
    low, high = bootstrap_interval(values)

    error = values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.01)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.01)
    assert all(np.isnan(bootstrap_interval(np.zeros(0))))


@pytest.mark.parametrize("cases", [1, 2, 60, 700])
def test_bootstrap_draws_whole_cases_by_seed(cases: int) -> None:
    """The same as drawing the values themselves, one resample after the other."""
    values = np.random.default_rng(6).random(cases)
    generator = np.random.default_rng(0)
    drawn = [generator.integers(0, cases, size=(100, cases)) for _ in range(20)]
    means = np.concatenate([values[indices].mean(axis=1) for indices in drawn])

    assert bootstrap_interval(values) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))


def test_bootstrap_over_users_draws_all_their_cases() -> None:
    """20 equal cases of each of 50 users are no more than 50 observations."""
    means = np.random.default_rng(7).random(50)
    owners = np.repeat(np.arange(50), 20)
    values = means[owners][None]

    assert bootstrap_intervals(values, owners)[0] == pytest.approx(bootstrap_interval(means))
    [low, high] = bootstrap_intervals(values, None)[0]
    [by_user_low, by_user_high] = bootstrap_intervals(values, owners)[0]
    assert by_user_high - by_user_low > 3 * (high - low)


def test_users_needed_give_the_promised_power() -> None:
    """Logs of that many users show the difference in about 80% of the draws."""
    draw = np.random.default_rng(1)
    difference, deviation = 0.02, 0.15  # of one user
    few = 50
    users = users_needed(few, deviation / np.sqrt(few), difference)

    logs = draw.normal(difference, deviation, size=(2000, users))
    p_values = stats.ttest_1samp(logs, 0.0, axis=1).pvalue
    assert users == 657  # ((2.576 + 0.842) * 0.15 / 0.02) ** 2
    assert np.mean(p_values < 0.01) == pytest.approx(0.8, abs=0.03)
    # They grow with the square of the precision.
    once = users_needed(1000, 0.01, 0.03)
    assert users_needed(1000, 0.01, 0.015) == pytest.approx(4 * once, abs=4)
    assert users_needed(1000, 0.01, -0.03) == once
    assert users_needed(1000, 0.01, 0.03, level=0.05) < once
    assert users_needed(1000, 0.01, 0.03, power=0.9) > once


def keys(names: str, reference: str = "") -> set[str]:
    pairs = compared_pairs(map(RankedSystem.parse, names.split()), reference)
    assert len(pairs) == len(set(pairs))
    return {f"{a.key} {b.key}" for a, b in pairs}


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        # with the ranker that has the same features without the model
        (
            "adj baseline baseline+m baseline_authors baseline_authors+m:sum m",
            {"baseline+m baseline", "baseline_authors+m:sum baseline_authors"},
        ),
        # more features also with the Baseline Ranker
        (
            "adj baseline baseline_semantic baseline_semantic+m",
            {
                "baseline_semantic baseline",
                "baseline_semantic+m baseline",
                "baseline_semantic+m baseline_semantic",
            },
        ),
        # with earlier queries and without them
        (
            "adj baseline baseline+m baseline_earlier baseline+m:earlier baseline_earlier+m "
            "m m:lift m:earlier_sum m:earlier_lift",
            {
                "baseline+m baseline",
                "baseline+m:earlier baseline",
                "baseline+m:earlier baseline+m",
                "baseline_earlier baseline",
                "baseline_earlier+m baseline",
                "baseline_earlier+m baseline_earlier",
                "m:earlier_sum m",
                "m:earlier_lift m:lift",
            },
        ),
    ],
)
def test_rankers_are_compared_with_adj_and_with_others(names: str, pairs: set[str]) -> None:
    with_adj = {f"{name} adj" for name in names.split() if name.startswith("baseline")}
    assert keys(names) == pairs | with_adj


def test_every_other_model_is_compared_with_the_first_alone_and_on_top() -> None:
    """`mine` is a model under study, `run` a run or a further feature with one ranker."""
    names = "adj baseline hred hred:lift mine mine:lift run qvmm baseline+hred baseline+hred:sum "
    names += "baseline+mine baseline+mine:sum baseline+run"
    assert keys(names, "hred") - keys(names) == {
        "adj hred",
        "qvmm hred",
        "run hred",
        "mine hred",
        "mine:lift hred:lift",
        "baseline+mine baseline+hred",
        "baseline+mine:sum baseline+hred:sum",
        "baseline+run baseline+hred",
        "baseline+run baseline+hred:sum",
    }


def cases_of(users: Sequence[str], lengths: Sequence[int] = (2,)) -> CaseSet:
    """One case per user with the right candidate first; the lengths of sessions recur."""
    return CaseSet(
        RankingCase(n, ("a",), "a", ("right", "wrong"), 0, lengths[n % len(lengths)], user=user)
        for n, user in enumerate(users)
    )


def test_few_cases_give_a_reason_instead_of_a_result() -> None:
    few, enough = (
        rank_systems(cases_of(["u"] * number), {ADJ: np.zeros(2 * number)})
        for number in (FEWEST_CASES - 1, FEWEST_CASES)
    )

    assert not few.summary([]).systems
    assert few.summary([]).too_few == "29 cases; at least 30 are needed"
    assert enough.summary([]).systems["adj"].mrr == 1.0


MODEL_ON_TOP = RankedSystem("baseline", "m")


class Remembers:
    """Likes the candidate that the first query of the context names."""

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        wanted = context[0].removeprefix("about ") if context else ""
        return [ScoredQuery(text, 0.0 if text == wanted else -9.0, 2) for text in candidates]


class FirstForm(RankerGroup):
    """A ranker that follows the model's sum."""

    def scores(self, features: FeatureTable) -> Floats:
        return features.column("hred:sum")[None, :]


def part(cases: int) -> RankedPart:
    made = CaseSet(
        RankingCase(n, ("about right", "b", "c", "d"), "d", ("wrong", "right"), 1, 5)
        for n in range(cases)
    )
    scores = CaseScorer(Remembers()).score(made)
    names = (*BASELINE_FEATURES, *(f"hred:{form}" for form in FORMS))
    columns = {f"hred:{form}": scores.form(form) for form in FORMS}
    zeros = FeatureTable(names, np.zeros((made.rows, len(names))))
    frequency = np.tile([2.0, 1.0], cases)
    return RankedPart(made, zeros.with_columns({**columns, "frequency": frequency}))


def test_a_model_that_needs_the_first_query_rises_with_the_context() -> None:
    scorer, group = CaseScorer(Remembers()), FirstForm(("sum",), ())
    result = by_context_length(part(40), "hred", scorer, group, iter)

    assert result.cases == 40
    assert list(result.queries) == ["1", "2", "3", "all"]
    assert result.queries["all"]["baseline+hred"].mrr == 1.0
    assert result.queries["3"]["hred"].mrr == 0.5
    pairs = [(item.a, item.b) for item in result.comparisons]
    assert pairs == [("all", "1"), ("all", "2"), ("all", "3")]
    assert all(item.difference == 0.5 for item in result.comparisons)
    assert all(item.p == 0.0 for item in result.comparisons)
    few = by_context_length(part(29), "hred", scorer, group, iter)
    assert few.too_few == "at least 30 are needed"
    assert not few.queries


def test_a_single_feature_is_taken_in_its_better_direction() -> None:
    result = single_features(part(3))

    assert list(result) == list(BASELINE_FEATURES)
    assert result["frequency"] == 1.0  # the rarer candidate is the right one
    assert result["words"] == 0.5


def test_shares_of_noise_and_lengths() -> None:
    frequencies = {"google": 200, **{f"q{number}": 100 for number in range(99)}, "rare": 1}
    background = BackgroundCounts(frequencies, {})
    cases = CaseSet(
        RankingCase(0, context, "", ("a",), 0, 2)
        for context in (("google", "x"), ("rare",), ("q98",), ("x",))
    )

    assert noisy_contexts(cases, background) == 0.5
    assert noisy_contexts(CaseSet(()), background) is None
    assert session_lengths(CaseSet(())) == {"short": None, "medium": None, "long": None}
    assert session_lengths(cases) == pytest.approx({"short": 1.0, "medium": 0.0, "long": 0.0})


def test_sessions_are_short_medium_or_long() -> None:
    made = cases_of(["u"] * 200, (2, 3, 4, 5))
    result = by_session_length(rank_systems(made, {ADJ: np.zeros(400)}), [])

    counts = {"short": 50, "medium": 100, "long": 50}
    assert {name: part.cases for name, part in result.items()} == counts


def test_users_of_a_group_are_read_as_the_log_writes_them(tmp_path: Path) -> None:
    file, empty = tmp_path / "staff.txt", tmp_path / "empty.txt"
    file.write_text("\ufeffann\r\n  bob\n\n", encoding="utf-8")
    empty.write_text("\n")
    ids = {str(pseudonym("ann")), str(pseudonym("bob"))}
    assert read_user_groups({"staff": file}) == {"staff": ids}
    with pytest.raises(InputError, match="no users in it"):
        read_user_groups({"staff": empty})
    with pytest.raises(InputError, match="cannot be read"):
        read_user_groups({"staff": tmp_path / "gone.txt"})


def test_systems_are_measured_on_the_cases_of_a_group_alone() -> None:
    users = ["s1", "s2"] * (FEWEST_CASES // 2) + ["other"] * FEWEST_CASES
    wrong = np.tile([0.0, 1.0], 2 * FEWEST_CASES)
    better = wrong.copy()
    better[: 2 * FEWEST_CASES] = np.tile([2.0, 1.0], FEWEST_CASES)  # right for the group only
    ranks = rank_systems(cases_of(users), {BASELINE: wrong, MODEL_ON_TOP: better})
    groups = {"staff": {"s1", "s2"}, "nobody": {"x"}}
    result = by_user_group(ranks, groups, [(MODEL_ON_TOP, BASELINE)])

    assert result["staff"].cases == FEWEST_CASES
    assert result["staff"].systems["baseline+m"].mrr == 1.0
    assert result["staff"].comparisons[0].difference == 0.5
    assert result["nobody"].too_few


class Judge:
    """Finds every second candidate useless."""

    judges_usefulness = True

    def usefulness_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        assert len(contexts) == len(candidates)
        return [[0.5 if index % 2 == 0 else 0.1 for index in range(len(c))] for c in candidates]


def test_the_last_query_decides_whether_a_session_was_clicked(prepared: Any, tiny_log: Any) -> None:
    sessions = [("a", ("shoes", "boots")), ("b", ("shoes", "boots")), ("c", ("hats", "socks"))]
    clicks = [("a", "boots", "https://example/1"), ("b", "shoes", "https://example/2")]
    data = prepared(tiny_log(sessions, clicks=clicks, reverse=True))
    assert clicked_endings(data, ["background"]) == {0}


def test_useful_candidates_rise() -> None:
    result = useful_scores(Judge(), cases_of(["u"] * 300), np.full(600, -1.0))
    assert result is not None
    assert result[:2] == pytest.approx([-1 + np.log(0.5), -1 + np.log(0.1)])
    assert useful_scores(object(), cases_of(["u"]), np.zeros(2)) is None


def test_systems_are_measured_where_clicked_and_where_not() -> None:
    number = 2 * FEWEST_CASES
    flat = np.tile([0.0, 1.0], number)
    lifted = flat.copy()
    lifted[:number] = np.tile([2.0, 1.0], FEWEST_CASES)  # the first half, which was clicked
    model = RankedSystem(model="m")
    ranks = rank_systems(cases_of(["u"] * number), {model: flat, model.with_form("useful"): lifted})
    result = by_last_click(ranks, frozenset(range(FEWEST_CASES)))
    assert result["clicked"].systems["m:useful"].mrr == 1.0
    assert result["not_clicked"].systems["m:useful"].mrr == 0.5
    gains = {name: item.comparisons[0].difference for name, item in result.items()}
    assert gains == {"clicked": 0.5, "not_clicked": 0.0}
    assert by_last_click(ranks, frozenset()) == {}
