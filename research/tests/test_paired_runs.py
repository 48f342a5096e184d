"""Systems are compared by the TREC files of a report, case by case."""

from pathlib import Path

import pytest

from research.paired_runs import compared, reciprocal_ranks


def test_ranks_are_of_the_true_next_query(tmp_path: Path) -> None:
    folder = tmp_path / "trec"
    folder.mkdir()
    (folder / "s.qrels").write_text("7 0 c1 1\n9 0 c2 1\n4 0 c0 1\n")
    (folder / "s.a.run").write_text(
        "7 Q0 c0 1 9 a\n7 Q0 c1 2 8 a\n9 Q0 c2 1 9 a\n4 Q0 c0 1 9 a\n4 Q0 c1 2 9 a\n"
    )
    (folder / "s.b.run").write_text("7 Q0 c1 4 9 b\n9 Q0 c2 2 9 b\n4 Q0 c1 1 9 b\n")
    assert reciprocal_ranks(folder, "s", "a").tolist() == [0.5, 1.0, 1.0]
    assert reciprocal_ranks(folder, "s", "b").tolist() == [0.25, 0.5, 0.0]
    [(pair, found)] = compared(tmp_path, "s", [("a", "b")]).items()
    assert pair == "a over b"
    assert found["relative"] == pytest.approx(2.5 / 0.75 - 1, abs=1e-4)
    assert found["difference_low"] <= found["difference"] <= found["difference_high"]
    assert 0 < found["p"] < 0.3
