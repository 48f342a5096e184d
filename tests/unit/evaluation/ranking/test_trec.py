import json
from pathlib import Path

import ir_measures
import numpy as np
import polars as pl
import pytest
from ir_measures import RR, Success

from nextquery.errors import InputError
from nextquery.evaluation.comparison import SystemRanks, qualities
from nextquery.evaluation.ranked_system import ADJ, BASELINE
from nextquery.evaluation.trec import (
    read_run,
    topics,
    user_hash,
    write_cases,
    write_qrels,
    write_ranks,
    write_run,
)
from nextquery.ranking.cases import CaseSet, RankingCase


def test_ir_measures_finds_the_same_figures_even_with_ties(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    cases = CaseSet(
        tuple(
            RankingCase(
                session=number,
                context=("a",),
                anchor="a",
                candidates=tuple(f"q{place}" for place in range(size)),
                target=int(generator.integers(size)),
                length=2,
            )
            for number, size in enumerate(generator.integers(5, 21, size=300))
        )
    )
    scores = generator.integers(0, 6, size=cases.rows).astype(np.float64)
    write_qrels(tmp_path / "qrels", cases)
    write_run(tmp_path / "run", cases, scores, "coin")

    theirs = ir_measures.calc_aggregate(
        [RR, Success @ 1, Success @ 5],
        ir_measures.read_trec_qrels(str(tmp_path / "qrels")),  # type: ignore[no-untyped-call]
        ir_measures.read_trec_run(str(tmp_path / "run")),  # type: ignore[no-untyped-call]
    )

    [ours] = qualities({ADJ: cases.ranks(scores)[None]}, ["u"] * len(cases)).values()
    assert theirs[RR] == pytest.approx(ours.mrr, abs=1e-12)
    assert theirs[Success @ 1] == pytest.approx(ours.hit_1, abs=1e-12)
    assert theirs[Success @ 5] == pytest.approx(ours.hit_5, abs=1e-12)


CASES = CaseSet(
    tuple(
        RankingCase(number, ("a",), "a", tuple(f"q{place}" for place in range(3)), 1, 2)
        for number in (7, 9)
    )
)


def test_a_run_that_was_written_is_read_with_the_same_order(tmp_path: Path) -> None:
    scores = np.array([0.5, 2.0, 1.0, 3.0, 3.0, 9.0])
    write_run(tmp_path / "run", CASES, scores, "mine")
    found = read_run(tmp_path / "run").of(CASES)
    assert CASES.ranks(found).tolist() == CASES.ranks(scores).tolist()


def test_candidates_that_a_run_leaves_out_come_last(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("7 Q0 c1 1 -5.5 x\n\n8 Q0 c99 1 1 other-case\n9 Q0 c2 1 3 x\n")
    scores = read_run(tmp_path / "run").of(CASES)
    assert scores.tolist() == [-np.inf, -5.5, -np.inf, -np.inf, -np.inf, 3.0]
    assert CASES.ranks(scores)[0] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7 Q0 c1 1 2\n", "line 1: must be TOPIC Q0 cNUMBER RANK SCORE NAME"),
        ("7 Q0 c1 1 high x\n", "line 1: must be TOPIC Q0 cNUMBER RANK SCORE NAME"),
        ("7 Q0 1 1 2 x\n", "line 1: topic 7 has no candidate 1"),
        ("7 Q0 c1 1 2 x\n9 Q0 c3 1 2 x\n", "topic 9 has no candidate c3"),
        ("7 Q0 c1 1 nan x\n", "line 1: the score of c1 is not a number"),
        ("7 Q0 c1 1 2 x\n7 Q0 c1 2 1 x\n", "line 2: topic 7 has c1 twice"),
        ("8 Q0 c1 1 2 x\n", "lacks 2 of 2 topics, such as 7"),
        ("7 Q0 c1 1 2 x\n", "lacks 1 of 2 topics, such as 9"),
    ],
)
def test_a_wrong_run_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run").write_text(text)
    with pytest.raises(InputError, match=message):
        read_run(tmp_path / "run").of(CASES)


def test_cases_say_what_a_run_is_made_from(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases", CASES)
    first, _ = map(json.loads, (tmp_path / "cases").read_text().splitlines())
    assert first == {"topic": "7", "context": ["a"], "candidates": ["q0", "q1", "q2"]}
    assert (tmp_path / "cases").stat().st_mode & 0o777 == 0o600  # sessions of single visitors


def test_a_session_with_several_cases_has_several_topics() -> None:
    made = [
        RankingCase(n, ("a",), "a", ("q",), 0, length) for n, length in ((7, 2), (7, 3), (8, 2))
    ]
    assert topics(CaseSet(tuple(made))) == ["7-2", "7-3", "8"]


def test_the_table_of_ranks_has_every_case_by_system_and_seed(tmp_path: Path) -> None:
    path = tmp_path / "next_query.ranks.parquet"
    ranks = {ADJ: np.array([[1, 2]]), BASELINE: np.array([[1, 4], [2, 4]])}
    write_ranks(path, {"test": SystemRanks(CASES, ranks)})

    assert path.stat().st_mode & 0o777 == 0o600
    table = pl.read_parquet(path)
    assert table.columns == [
        "split", "case", "user", "length", "system", "seed", "reciprocal_rank",
    ]  # fmt: skip
    second = table.filter(system="baseline", seed=2)
    assert second["reciprocal_rank"].to_list() == [0.5, 0.25]
    assert second["case"].to_list() == ["7", "9"]
    assert set(table["user"]) == {user_hash("")}
    assert len(table) == 6
