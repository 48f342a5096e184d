import numpy as np
import pytest

from nextquery.evaluation.ranked_system import RankedSystem
from nextquery.evaluation.rankers import FORM_SETS, RankerTrainer, train_all
from nextquery.ranking.cases import CaseSet, RankingCase
from nextquery.ranking.features import BASELINE_FEATURES, FeatureTable
from nextquery.ranking.lambdamart import RankedPart
from nextquery.ranking.scoring import FORMS

pytestmark = pytest.mark.slow


def part(cases: int, seed: int) -> RankedPart:
    """Only the lift of the model's score says which of ten candidates is right."""
    generator = np.random.default_rng(seed)
    texts = tuple(f"q{number}" for number in range(10))
    made = [
        RankingCase(number, ("a",), "a", texts, int(generator.integers(10)), 2)
        for number in range(cases)
    ]
    case_set = CaseSet(tuple(made))
    names = (*BASELINE_FEATURES, *(f"hred:{form}" for form in FORMS), "other:sum")
    values = generator.normal(size=(case_set.rows, len(names)))
    values[case_set.targets, names.index("hred:lift")] += 3.0
    return RankedPart(case_set, FeatureTable(names, values))


def test_the_forms_that_help_on_the_validation_part_are_chosen() -> None:
    trainer = RankerTrainer(part(150, 1), part(80, 2), range(1, 5))
    trained, choices = train_all(trainer, ["hred"], ["other"])

    groups = {system.key: group for system, group in trained.items()}
    assert set(groups) == {"baseline", "baseline+hred:sum", "baseline+hred", "baseline+other"}
    assert "lift" in groups["baseline+hred"].forms
    assert groups["baseline+hred:sum"].forms == ("sum",)
    assert set(choices["hred"]) == {"+".join(forms) for forms in FORM_SETS}
    assert choices["hred"]["lift"] > choices["hred"]["sum"] + 0.2


def test_every_system_has_a_ranker_a_seed_and_the_shape_of_the_baseline() -> None:
    trainer = RankerTrainer(part(150, 1), part(80, 2), range(1, 5))
    groups, _ = train_all(trainer, ["hred"], [])

    assert {len(group.rankers) for group in groups.values()} == {4}
    assert len({group.shape for group in groups.values()}) == 1
    test = part(50, 3)
    assert groups[RankedSystem("baseline", "hred")].scores(test.features).shape == (4, 500)


@pytest.mark.parametrize("helps", [True, False])
def test_earlier_queries_are_used_where_validation_gains_by_them(helps: bool) -> None:
    """Without the earlier queries the lift is worth something, with them much or nothing."""

    def with_earlier(cases: int, seed: int) -> RankedPart:
        made = part(cases, seed)
        generator = np.random.default_rng([seed, 1])
        names = [f"hred:earlier_{form}" for form in FORMS]
        columns = {name: generator.normal(size=made.cases.rows) for name in names}
        columns["hred:earlier_lift"][made.cases.targets] += 6.0 if helps else 0.0
        similar = {"earlier_similarity_1": generator.normal(size=made.cases.rows)}
        return RankedPart(made.cases, made.features.with_columns(columns | similar))

    trainer = RankerTrainer(with_earlier(150, 1), with_earlier(80, 2), [1, 2, 3])
    trained, choices = train_all(trainer, ["hred"], [])

    groups = {system.key: group for system, group in trained.items()}
    chosen = groups["baseline+hred:earlier"]
    assert ("earlier_lift" in chosen.forms) == helps
    assert (chosen.forms == groups["baseline+hred"].forms) == (not helps)
    assert set(choices["hred:earlier"]) > set(choices["hred"])
    assert groups["baseline_earlier+hred"].forms == chosen.forms
    assert "earlier_similarity_1" in groups["baseline_earlier"].rankers[0].names
    assert "earlier_similarity_1" not in chosen.rankers[0].names
