"""The name of a ranked system: which ranker, which model, which form of the model's score."""

from dataclasses import dataclass, replace

BASELINES = {
    "baseline": "Baseline Ranker",
    "baseline_authors": "Authors' Baseline",
    "baseline_semantic": "Baseline with meaning",
    "baseline_earlier": "Baseline with earlier queries",
}
"""The rankers that need no model, with their labels."""

_MODEL_LABELS = {
    "adj": "ADJ",
    "popularity": "Popularity",
    "drop_words": "Drop words, then popular",
    "completions": "Completions of the last query",
}

_FORM_LABELS = {
    "": "",
    "sum": " (sum only)",
    "per_word": " per word",
    "lift": " lift",
    "share": " share",
    "useful": " weighted by usefulness",
    "earlier": " with earlier queries, if they help",
    "earlier_sum": " with earlier queries",
    "earlier_lift": " lift with earlier queries",
}


@dataclass(frozen=True)
class RankedSystem:
    """A system that ranks candidates.

    `base` is one of `BASELINES`, or empty for a model that ranks alone; `model` is empty for a
    ranker without a model. `form` is the form of the model's score; a ranker without one has the
    forms that were best on the validation cases.

    >>> system = RankedSystem("baseline", "mine", "sum")
    >>> system.key, system.label
    ('baseline+mine:sum', '+ MINE (sum only)')
    >>> RankedSystem.parse("baseline+mine:sum") == system
    True
    """

    base: str = ""
    model: str = ""
    form: str = ""

    @classmethod
    def parse(cls, key: str) -> "RankedSystem":
        """The system of a key; a name that no system here has is a model's (a TREC run)."""
        if key in BASELINES:
            return cls(base=key)
        base, plus, rest = key.partition("+")
        if not plus or base not in BASELINES:
            base, rest = "", key
        model, _, form = rest.partition(":")
        return cls(base, model, form)

    @property
    def key(self) -> str:
        """The name in `results.json`."""
        scored = f"{self.model}:{self.form}" if self.form else self.model
        return "+".join(part for part in (self.base, scored) if part)

    @property
    def label(self) -> str:
        """The name in the report."""
        if not self.model:
            return BASELINES[self.base]
        model = _MODEL_LABELS.get(self.model, self.model.upper())
        scored = model + _FORM_LABELS.get(self.form, f":{self.form}")
        if not self.base:
            return scored
        return f"+ {scored}" if self.base == "baseline" else f"{BASELINES[self.base]} + {scored}"

    def with_form(self, form: str) -> "RankedSystem":
        """The same system with another form of the score."""
        return replace(self, form=form)


ADJ = RankedSystem(model="adj")
BASELINE = RankedSystem("baseline")


def label(key: str) -> str:
    """The name of a system in the report, by its key in `results.json`."""
    return RankedSystem.parse(key).label
