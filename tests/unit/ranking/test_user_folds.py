import pytest

from nextquery.ranking.cases import user_fold, user_place

USERS = [f"user {number}" for number in range(2000)]


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_are_of_like_size(folds: int) -> None:
    sizes = [sum(user_fold(user, folds) == fold for user in USERS) for fold in range(folds)]

    assert min(sizes) > 0.85 * 2000 / folds


def test_quarters_are_parts_of_halves() -> None:
    assert all(user_fold(user, 4) % 2 == user_fold(user, 2) for user in USERS)


def test_another_purpose_has_another_order() -> None:
    orders = [sorted(USERS, key=lambda user: user_place(user, name)) for name in ("a", "b")]

    assert orders[0] != orders[1]
