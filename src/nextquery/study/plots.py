"""The paper's Figure 8 for a study. Knows matplotlib; computes nothing."""

import io
from typing import Any

from nextquery.study.judgements import GRADES
from nextquery.study.results import GroupResults, ModelResults

COLOURS = {"useful": "#0b6e63", "somewhat useful": "#d9a441", "not useful": "#c9c7c0"}
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "nextquery",  # the same bytes for the same plot
    "svg.fonttype": "none",
    "text.parse_math": False,  # a model may be called A$\frac$
}
_LABEL_CHARACTERS = 24


def draw_shares(results: GroupResults) -> str:
    """The share of each judgement per model, with 95% intervals, as an SVG element."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        axes = figure.subplots()
        width = 0.8 / len(GRADES)
        for offset, grade in enumerate(GRADES):
            places = [index + (offset - 1) * width for index in range(len(results.models))]
            values, errors = _bars(results.models, grade)
            axes.bar(places, values, width, label=grade, color=COLOURS[grade])
            axes.errorbar(places, values, errors, fmt="none", ecolor="#333333", capsize=2, lw=1)
        axes.set_xticks(range(len(results.models)), [_label(m.model) for m in results.models])
        axes.set_ylabel("share of suggestions (%)")
        axes.set_ylim(0, 100)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.14))
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _bars(
    models: tuple[ModelResults, ...], grade: str
) -> tuple[list[float], tuple[list[float], list[float]]]:
    """The heights of one grade's bars, and how far their intervals reach below and above."""
    shares = [model.shares[grade] for model in models]
    below = [100 * max(0.0, share.value - share.low) for share in shares]
    above = [100 * max(0.0, share.high - share.value) for share in shares]
    return [100 * share.value for share in shares], (below, above)


def _label(name: str) -> str:
    """A name that leaves room for its neighbours."""
    return name if len(name) <= _LABEL_CHARACTERS else f"{name[: _LABEL_CHARACTERS - 1]}…"
