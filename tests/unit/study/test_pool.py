from pathlib import Path

import pytest

from nextquery.errors import ArtifactError, InputError
from nextquery.study.judgements import JudgementStore
from nextquery.study.pool import POOL, Topic, create_study, read_key, read_pool

from .conftest import WordAdder


def test_equal_suggestions_are_pooled_once(study: Path) -> None:
    pool, key = read_pool(study), read_key(study)
    # guide, book, price, movie and three bad ones: price came from two models.
    assert [len(topic.items) for topic in pool.topics] == [7, 7]
    price = next(item.id for item in pool.topics[0].items if item.text == "jaguar price")
    assert key.given["SecretGood"][0][2] == price == key.given["SecretMixed"][0][0]


def test_contexts_are_for_the_owner_only(study: Path) -> None:
    assert (study / POOL).stat().st_mode & 0o777 == 0o600


def test_only_the_key_names_models(study: Path) -> None:
    for file in study.iterdir():
        assert ("Secret" in file.read_text()) == (file.name == "key.json"), file.name


def test_every_assessor_has_an_order_of_their_own(study: Path) -> None:
    pool = read_pool(study)
    orders = {tuple(i.id for t in pool.shuffled(n) for i in t.items) for n in range(1, 6)}
    assert len(orders) == 5
    assert pool.shuffled(1) == read_pool(study).shuffled(1)
    assert all(sorted(order) == list(range(14)) for order in orders)


def test_a_study_with_judgements_is_never_replaced(study: Path) -> None:
    JudgementStore(study)
    with pytest.raises(ArtifactError, match="already has judgements"):
        create_study(study, [Topic("x")], {"a": None, "b": None})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["", " ", "a\x00b", "a\nb", "\udcff", "\u202eabc", "x" * 81])
def test_a_name_that_no_report_could_show_is_refused_before_anybody_judges(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(InputError, match="printable"):
        create_study(tmp_path / "s", [Topic("x")], {name: WordAdder("a"), "b": WordAdder("b")})
    assert not (tmp_path / "s").exists()


def test_half_characters_of_a_model_do_not_break_the_folder(tmp_path: Path) -> None:
    models = {"a": WordAdder("\ud800", "\udfff"), "b": WordAdder("\U0001f600")}
    create_study(tmp_path / "s", [Topic("x")], models)
    assert [i.text for i in read_pool(tmp_path / "s").topics[0].items] == [
        "x \ufffd",
        "x \U0001f600",
    ]


def test_one_model_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least two"):
        create_study(tmp_path / "s", [Topic("x")], {})
