from pathlib import Path

import pytest

from nextquery.evaluation.report.ranking_plots import drawn, label


@pytest.mark.parametrize("name", ["A$\\frac$", "$$", "$x^2$ <script>", "a:b"])
def test_any_name_of_a_system_can_be_drawn(tmp_path: Path, name: str) -> None:
    with drawn(tmp_path / "plot.svg", 3.0, 2.0) as (axes,):
        axes.plot([0, 1], [0, 1], label=label(name))
        axes.set_yticks([0], [label(name)])
        axes.legend()
    assert "<script" not in (tmp_path / "plot.svg").read_text()
