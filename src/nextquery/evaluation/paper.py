"""The results that the paper itself reports, to stand beside ours. Knows numbers and names only.

Sordoni et al., CIKM 2015, Tables 1 to 5, Figure 7 and the text of section 4. Its percentages
of Table 5 do not follow from its MRRs; what follows from them is given here.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PaperScenario:
    """MRR by system, and what the text says of the test cases."""

    table: str
    mrr: Mapping[str, float]
    test_cases: int | None
    noisy_contexts: float | None

    def gain(self, over: str) -> float:
        """The relative gain of the ranker with HRED."""
        return self.mrr["baseline+hred"] / self.mrr[over] - 1.0


PAPER: Mapping[str, PaperScenario] = {
    "next_query": PaperScenario(
        "Table 3",
        {"adj": 0.5334, "baseline": 0.5563, "baseline+hred": 0.5749},
        9348,
        0.37,
    ),
    "robust": PaperScenario(
        "Table 4",
        {"adj": 0.4507, "baseline": 0.4831, "baseline+hred": 0.5309},
        9348,
        None,
    ),
    "long_tail": PaperScenario(
        "Table 5",
        {"adj": 0.3830, "baseline": 0.6788, "baseline+hred": 0.7112},
        None,
        0.08,
    ),
}

SESSIONS = {
    "background": 1_708_224,
    "training": 435_705,
    "validation": 166_836,
    "test": 230_359,
}

TRAINING = {
    "batches": "135,350",
    "training": "44 h 01 min",
    "decoding": "about 1 s",
    "memory": "301 MB",
}

LONG_SESSION_GAINS = {"adj": 0.15, "baseline": 0.07}
"""What HRED gains in long sessions, over ADJ and over the Baseline Ranker (section 4.4)."""

BASELINE_ON_LONG_SESSIONS = 0.529
"""The Baseline Ranker's MRR on long sessions, which HRED reaches with one query of context."""

TABLE_1: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("ace series drive",): (
        "ace hardware",
        "ace hard drive",
        "hp officejet drive",
        "ace hardware series",
    ),
    ("cleveland gallery", "lake erie art"): (
        "cleveland indian art",
        "lake erie art gallery",
        "lake erie picture gallery",
        "sandusky ohio art gallery",
    ),
}
"""The contexts of Table 1 and the paper's synthetic suggestions."""

FIGURE_7 = ("airlines", "united airlines", "google")
"""The corrupted context whose update gates Figure 7 shows; the last query is the noise."""
