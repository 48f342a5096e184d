from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.privacy import pseudonym
from nextquery.logs.revise import forget


def _users(data: Path) -> set[str]:
    opened = PreparedData(data)
    return {session.user for split in opened.splits for session in opened.sessions(split)}


def test_a_user_goes_by_the_name_of_the_log_or_by_pseudonym(data: Path) -> None:
    found = forget(data, ["ann"])
    # Ten queries and the broken row.
    assert (found.users_removed, found.rows_removed, found.unattributed_excerpts) == (1, 11, 0)
    assert found.counts["rows_rejected"] == 0
    assert forget(data, [str(pseudonym("bob"))], as_pseudonyms=True).users_removed == 1
    assert _users(data) == {str(pseudonym(user)) for user in ("cat", "dan")}


def test_another_folder_can_be_written(data: Path, tmp_path: Path) -> None:
    forget(data, ["ann"], tmp_path / "other")
    assert str(pseudonym("ann")) in _users(data)
    assert str(pseudonym("ann")) not in _users(tmp_path / "other")


def test_a_stranger_leaves_the_folder_as_it_is_but_for_the_note(data: Path) -> None:
    before = PreparedData(data).artifact.manifest
    found = forget(data, ["nobody"])
    assert (found.users_removed, found.rows_removed) == (0, 0)
    assert PreparedData(data).artifact.manifest["files"] == before["files"]


@pytest.mark.parametrize(
    ("users", "as_pseudonyms", "message"),
    [([], False, "nobody is named"), ([""], False, "nobody is named"), (["ann"], True, "a number")],
)
def test_somebody_must_be_named(
    users: list[str], as_pseudonyms: bool, message: str, data: Path
) -> None:
    with pytest.raises(InputError, match=message):
        forget(data, users, as_pseudonyms=as_pseudonyms)
