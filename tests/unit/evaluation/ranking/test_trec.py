from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, Success

from nextquery.evaluation.ranking.metrics import quality
from nextquery.evaluation.ranking.trec import write_qrels, write_run
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

    ours = quality(cases.ranks(scores)[None, :])
    assert theirs[RR] == pytest.approx(ours.mrr, abs=1e-12)
    assert theirs[Success @ 1] == pytest.approx(ours.hit_1, abs=1e-12)
    assert theirs[Success @ 5] == pytest.approx(ours.hit_5, abs=1e-12)
