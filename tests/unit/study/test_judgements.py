from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nextquery.errors import ArtifactError, InputError
from nextquery.study.judgements import FILE, NOT_USEFUL, USEFUL, Judgement, JudgementStore


def test_the_last_judgement_stands_and_undo_takes_it_back(tmp_path: Path) -> None:
    store = JudgementStore(tmp_path)
    store.judge(1, 4, USEFUL)
    store.judge(1, 4, NOT_USEFUL)
    store.judge(2, 4, USEFUL)
    assert store.current(1) == [Judgement(1, 4, NOT_USEFUL)]
    store.judge(1, 4, None)
    assert store.current() == [Judgement(2, 4, USEFUL)]


def test_tokens_are_unguessable_and_stay(tmp_path: Path) -> None:
    tokens = JudgementStore(tmp_path).tokens(3)
    again = JudgementStore(tmp_path).tokens(5)
    assert {n: again[n] for n in tokens} == tokens
    assert len(set(again.values())) == 5
    assert min(map(len, again.values())) >= 32


def test_a_link_belongs_to_the_first_browser_until_released(tmp_path: Path) -> None:
    store = JudgementStore(tmp_path)
    store.tokens(1)
    assert store.claim(1, "laptop")
    assert not store.claim(1, "phone")
    assert store.claim(1, "laptop")
    store.release(1)
    assert store.claim(1, "phone")
    with pytest.raises(InputError, match="no such assessor"):
        store.release(9)


def test_a_link_is_open_to_all_until_somebody_judges(tmp_path: Path) -> None:
    store = JudgementStore(tmp_path)
    store.tokens(1)
    assert store.admits(1, None)
    assert store.admits(1, "phone")
    assert store.claim(1, "laptop")
    assert store.admits(1, "laptop")
    assert not store.admits(1, "phone")
    assert not store.admits(1, None)
    assert not store.admits(2, "laptop")


def test_assessors_are_all_who_have_a_link(tmp_path: Path) -> None:
    store = JudgementStore(tmp_path)
    assert store.assessors() == []
    store.tokens(3)
    assert store.assessors() == [1, 2, 3]


def test_several_assessors_write_at_once(tmp_path: Path) -> None:
    store = JudgementStore(tmp_path)

    def judge_twenty(assessor: int) -> None:
        for item in range(20):
            store.judge(assessor, item, USEFUL)

    with ThreadPoolExecutor(5) as threads:
        list(threads.map(judge_twenty, range(5)))
    assert len(store.current()) == 100


@pytest.mark.parametrize("number", [0, -1, 1 << 63, 10**30])
def test_assessors_that_cannot_be_are_refused(tmp_path: Path, number: int) -> None:
    store = JudgementStore(tmp_path)
    with pytest.raises(InputError, match="no such assessor"):
        store.release(number)
    with pytest.raises(InputError, match=r"at (least|most)"):
        store.tokens(number)


@pytest.mark.parametrize("content", [b"no database at all " * 100, bytes(range(256)) * 40])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ArtifactError, match=r"judgements\.sqlite: the judgements cannot be read"):
        JudgementStore(tmp_path)
