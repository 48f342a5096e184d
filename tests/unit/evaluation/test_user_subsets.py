from pathlib import Path

from nextquery.evaluation.systems import count_tables, write_user_subset
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import user_fold

TABLES = ("queries", "words", "word_pairs", "followers")


def test_all_users_give_the_folder_that_prepare_made(
    small_data: PreparedData, tmp_path: Path
) -> None:
    same = write_user_subset(small_data, tmp_path / "all", lambda user: True, small_data.splits)

    for table in TABLES:
        assert same.counts(table).collect().equals(small_data.counts(table).collect())
    assert same.words() == small_data.words()
    assert same.splits == small_data.splits
    for split in same.splits:
        assert list(same.sessions(split)) == list(small_data.sessions(split))


def test_the_k_user_rule_holds_in_a_subset(small_data: PreparedData) -> None:
    rows = small_data.search_rows("background").collect()
    queries = count_tables(rows, min_users=3)["queries"]

    assert len(queries) > 10
    assert queries["users"].min() == 3
    whole = count_tables(rows, min_users=1)["queries"]
    assert len(whole) > len(queries)


def test_left_out_users_are_gone_from_the_splits_named(
    small_data: PreparedData, tmp_path: Path
) -> None:
    def keep(user: str) -> bool:
        return user_fold(user, 2) == 0

    found = write_user_subset(small_data, tmp_path / "half", keep, ("background",))

    kept = {session.user for session in found.sessions("background")}
    assert kept == {s.user for s in small_data.sessions("background") if keep(s.user)}
    assert list(found.sessions("test")) == list(small_data.sessions("test"))
    counts = found.artifact.manifest["counts"]["sessions"]
    assert counts["background"] == len(list(found.sessions("background")))
    assert found.min_users == small_data.min_users
    found.artifact.verify()


def test_a_whole_background_keeps_its_tables(small_data: PreparedData, tmp_path: Path) -> None:
    found = write_user_subset(small_data, tmp_path / "same", lambda user: False, ("test",))

    assert list(found.sessions("test")) == []
    assert found.counts("clicks").collect().equals(small_data.counts("clicks").collect())
    assert found.words() == small_data.words()
