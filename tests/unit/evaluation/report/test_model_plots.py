from pathlib import Path

from nextquery.evaluation.report import plots
from nextquery.evaluation.results import ExperimentResults


def test_every_plot_draws_its_results(results: ExperimentResults, tmp_path: Path) -> None:
    example = results.gates["hred"].example
    assert example is not None
    plots.draw_generation(results, tmp_path / "generation.svg")
    plots.draw_gates(example, tmp_path / "gates.svg")
    plots.draw_gate_means(results, tmp_path / "means.svg")
    plots.draw_boundaries(results, tmp_path / "boundaries.svg")
    plots.draw_projection(results.projections["hred"].words, tmp_path / "words.svg")

    files = sorted(tmp_path.iterdir())
    assert len(files) == 5
    assert all(file.read_bytes().startswith(b"<?xml") for file in files)
