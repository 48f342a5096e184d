"""Measured figures of quickstart, how-to and explanation pages come from docs/results.

`FIGURES` has every sentence with a figure, written from the JSON file that has it. What else looks
like a measurement must be a limit, a default or a number of the paper, and is named in `CONSTANTS`.
Tables between `<!-- table: ... -->` markers and README are checked by test_research.py.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from research.tables import p_value, read

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = {"decoding", "reproduce-the-paper", "tutorial"}
"""Pages of measurements with their own commands, and the tutorial, which shows its own output."""
PAGES = [
    *sorted((DOCS / "get-started").glob("*.md")),
    *sorted((DOCS / "how-to").glob("*.md")),
    *sorted((DOCS / "explanation").glob("*.md")),
    DOCS / "reference" / "models.md",
]
PAGES = [page for page in PAGES if page.stem not in ELSEWHERE]
_UNITS = "ms|s|h|kB|KB|MB|GB|bits?|nats|CPU seconds|requests/s|words/s"
_MEASURED = re.compile(
    rf"""(?<![\w.,/-])(?:
      [+-]?\d[\d,.]*\s?%            # 12.5%
    | [+-]?\d[\d,.]*\s(?:{_UNITS})\b
    | \d+\sof\s\d+                  # 78 of 87
    | [+-]?(?:\d[\d,]*)?\.\d+       # .127
    | \d{{1,3}}(?:,\d{{3}})+        # 1,012
    )""",
    re.X,
)
CONSTANTS = {
    "quickstart": ["Python 3.11", "2.13.0", "less than 350 MB"],
    "faq": ["20,000 or more", "20,000 is a compromise"],
    "experiments": ["1/1024"],
    "feedback": [
        "Insights 1.3", "95% intervals", "2,000 for one origin", "(.05)", "(.95)",
        "95% interval of",
    ],
    "log-formats": [
        "Insights 1.3", "Elastic 9.0", "more than 5% of", "5,000 in all", "at most 1% of",
    ],
    "model": [
        "V = 90,000", "74.96 million", "300 MB", "paper's 301 MB", "N(0, .01)",
    ],
    "models": [
        "30,000 sessions", "20,000 sessions or more", "2,000 validation", "| 0.6 |", "95% interval",
    ],
    "nightly-updates": ["p < .01", "6,000 sessions", "Benjamini-Hochberg, .05"],
    "privacy": [
        "16 bits per entry", "10,000 times", "log of 20,000 sessions", "63 bits", "1,024 such",
        "10 bits means", "1.4 bits is chance",
    ],
    "serve": ["75 s"],
    "service-under-load": [
        "70% of the time", "after 3 s", "after 0.5 s", "up to 30 s", "every 10 s", "within 10 s",
        "answer: 10 s",
    ],
    "synthetic-log": [
        "2,700 or so words", "60,000 sessions, K", "15% are drawn", "6% are drawn",
        "3% of the queries",
        "85% for two", "20% for the others", "50% for other",
    ],
    "training": ["| 5,000 |", "| 20,000 |", "| 90,000 |"],
    "user-study": ["section 4.7", "95% intervals"],
}  # fmt: skip
"""Limits, defaults, versions and numbers of the paper, by page."""


def faq_synthetic() -> str:
    first, later = (read("log_sizes")["copying"][index] for index in (0, 3))
    gains = [entry["gains"]["baseline+hred:sum"]["relative"] for entry in (first, later)]
    return (
        f"by {gains[0]:.1%} on {first['sessions']:,} sessions and by {gains[1]:.1%} on "
        f"{later['sessions']:,}"
    )


def faq_aol() -> str:
    study = read("aol_contexts")
    gain = study["scenarios"]["every_context"]["gains"]["baseline+hred over baseline"]
    sessions = study["sessions"]["background"]
    p = p_value(gain["p_by_user"])
    return f"{sessions:,} sessions give {gain['relative']:+.1%} in every context (p {p})"


def encoder() -> str:
    mrr = read("aol_meaning")["new_visitors"]["every_context"]["mrr"]
    names = ("baseline_semantic", "baseline+hred", "baseline_semantic+hred")
    gains = [mrr[name] / mrr["baseline"] - 1 for name in names]
    return "it gained {:.1%}, HRED {:.1%}, both {:.1%}".format(*gains)


def copying() -> str:
    plain, copying = (
        read(name)["models"]["hred"]["validation_perplexity"] for name in ("aol_plain", "aol_known")
    )
    return f"lowers the validation perplexity from {plain:.1f} to {copying:.1f}"


def returning(visitors: str, text: str) -> Callable[[], str]:
    def sentence() -> str:
        measured = read("returning")["learners"]["regression"]["result"]["visitors"][visitors]
        alone, together = measured["lists"]["blend"]["hit_5"], measured["shown"]["blend"]["hit"]
        return text.format(f"{alone['value']:.1%}", f"{together['value']:.1%}")

    return sentence


def continued_training() -> str:
    hred = read("new_days")["hred"]
    before, after, anew = (hred[name]["perplexity"] for name in ("before", "after", "anew"))
    return f"from {before:.1f} to {after:.1f}, three epochs from scratch to {anew:.1f}"


def rescue() -> str:
    adjacency = read("rescue")["K = 1"]["adjacency"]
    alone, led = (f"{adjacency[key]['mrr']:.3f}".lstrip("0") for key in ("alone", "led"))
    return f"raises the MRR of adjacency from {alone} to {led} with K = 1"


FIGURES: list[tuple[str, Callable[[], str]]] = [
    ("faq", faq_synthetic),
    ("faq", faq_aol),
    ("alternatives", encoder),
    ("training", copying),
    (
        "visitors-history",
        returning(
            "test: all",
            "in a blend's list of five in {} of requests, and in the list or in `again` in {}",
        ),
    ),
    ("visitors-history", returning("unseen_users: all", "for held-out users in {} and {}")),
    (
        "visitors-history",
        returning(
            "test: users never looked at", "played no part in the development it is {} and {}"
        ),
    ),
    ("nightly-updates", continued_training),
    ("models", rescue),
    ("search-box", lambda: "under 7.6 kB with gzip"),  # tests/browser/test_widget_package.py
    # tests/unit/feedback/test_comparison.py
    (
        "feedback",
        lambda: "some 600 visitors to find the better one, a 50:50 split some 1,600",
    ),
    # tests/unit/logs/test_privacy.py
    ("privacy", lambda: "Of 87 examples written later, 78 are recognised; of 48 harmless ones, 3"),
]


def prose(page: Path) -> str:
    """The page without code, generated tables and addresses, on one line."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"(?s)<!-- table: .*?<!-- end -->", " ", text)
    text = re.sub(r"(?ms)^ *(`{3,}|~{3,}).*?^ *\1.*?$", " ", text)
    text = re.sub(r"(?m)^    .*$", " ", text)
    text = re.sub(r"\]\([^)\s]*\)", "]", text)
    return " ".join(text.split())


def without_code(text: str) -> str:
    return re.sub(r"`[^`]+`", " ", text)


@pytest.mark.parametrize(("page", "sentence"), FIGURES)
def test_a_sentence_has_the_figures_of_its_file(page: str, sentence: Callable[[], str]) -> None:
    [path] = [path for path in DOCS.glob(f"*/{page}.md") if path.parent.name != "results"]
    assert sentence() in prose(path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_figure_has_a_file_or_is_a_constant(page: Path) -> None:
    text = prose(page)
    for name, sentence in FIGURES:
        if name == page.stem:
            text = text.replace(sentence(), " ")
    text = without_code(text)
    for constant in CONSTANTS.get(page.stem, []):
        assert constant in text, f"{page.stem}: nothing needs the constant {constant!r}"
        text = text.replace(constant, " ")
    figures = [text[max(0, m.start() - 40) : m.end() + 20] for m in _MEASURED.finditer(text)]
    assert not figures, f"{page.name}: no file of docs/results has these figures"


def test_the_check_finds_figures() -> None:
    texts: Any = _MEASURED.findall("12% of 3.1 s, 78 of 87, .127, 1,012 rows; v3, 20 users, a/b/2")
    assert texts == ["12%", "3.1 s", "78 of 87", ".127", "1,012"]
