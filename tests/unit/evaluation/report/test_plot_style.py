from pathlib import Path

import pytest

from nextquery.evaluation.ranked_system import RankedSystem, label
from nextquery.evaluation.report.plots import FIXED, colour, svg_plot


@pytest.mark.parametrize(
    ("system", "text"),
    [
        ("adj", "ADJ"),
        ("baseline", "Baseline Ranker"),
        ("baseline+hred", "+ HRED"),
        ("baseline+hred:sum", "+ HRED (sum only)"),
        ("hred:lift", "HRED lift"),
        ("popularity", "Popularity"),
        ("baseline_authors", "Authors' Baseline"),
        ("baseline_semantic+hred", "Baseline with meaning + HRED"),
        ("baseline_authors+hred:sum", "Authors' Baseline + HRED (sum only)"),
    ],
)
def test_key_and_label_of_a_system(system: str, text: str) -> None:
    assert label(system) == text
    assert RankedSystem.parse(system).key == system


@pytest.mark.parametrize("name", ["mine+x", "baseline2", "baseline2+hred"])
def test_a_name_that_only_resembles_a_baseline_is_a_model(name: str) -> None:
    assert RankedSystem.parse(name) == RankedSystem(model=name)


def test_a_model_has_one_colour_in_all_its_forms() -> None:
    models = ("plain", "copy")

    assert colour("baseline+copy:sum", models) == colour("copy", models)
    assert colour("copy", models) != colour("plain", models)
    assert colour("baseline", models) == FIXED["baseline"]


@pytest.mark.parametrize("name", ["A$\\frac$", "$$", "$x^2$ <script>", "a:b"])
def test_any_name_of_a_system_can_be_drawn(tmp_path: Path, name: str) -> None:
    with svg_plot(tmp_path / "plot.svg", 3.0, 2.0) as (axes,):
        axes.plot([0, 1], [0, 1], label=label(name))
        axes.set_yticks([0], [label(name)])
        axes.legend()
    assert "<script" not in (tmp_path / "plot.svg").read_text()


def test_a_plot_is_the_same_file_every_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        with svg_plot(tmp_path / name, 3, 2, 2) as axes:
            assert len(axes) == 2
            axes[0].plot([1, 2])
    text = (tmp_path / "a.svg").read_bytes()

    assert text.startswith(b"<?xml")
    assert text == (tmp_path / "b.svg").read_bytes()
