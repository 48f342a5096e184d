"""What a returning visitor may search for again: P(next query = q | own past, session).

Candidates are the visitor's own earlier queries, so the model stores no query of anybody: it has
a logistic regression over features of the past (how often, how recently, after
which query) and of the session (words in common). The K-user rule does not apply to a visitor's own
text.

    model = Returning.load(folder)
    model.again(["paris hotels"], [PastQuery("paris metro map", 1_700_000_000, 3)], now)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nextquery.artifacts import Artifact, publish, read_artifact
from nextquery.artifacts.arrays import load_array, require
from nextquery.config import Section, stored_section
from nextquery.errors import ArtifactError
from nextquery.guard.guard import Guard, HitsCheck, OwnText, looks_typed
from nextquery.records import Suggestion

Floats = NDArray[np.float64]

KIND = "returning"
MAX_HISTORY = 200
"""Different earlier queries that are looked at, the most recent ones."""
SOURCE = "typed before"
FURTHER = 0.25
"""`further` of folders that do not say."""
_IDLE_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class PastQuery:
    """An earlier query of a visitor: when it was typed last, and how often."""

    text: str
    """Normalised."""
    time: float
    """Seconds since 1970."""
    count: int = 1


def merge_history(entries: Iterable[PastQuery]) -> tuple[PastQuery, ...]:
    """The most recent different queries, newest first; the counts of equal ones are added.

    >>> merged = merge_history([PastQuery("rome", 5), PastQuery("paris", 9), PastQuery("rome", 7)])
    >>> [(entry.text, entry.time, entry.count) for entry in merged]
    [('paris', 9, 1), ('rome', 7, 2)]
    """
    merged: dict[str, PastQuery] = {}
    for entry in entries:
        other = merged.get(entry.text)
        merged[entry.text] = (
            entry
            if other is None
            else PastQuery(entry.text, max(entry.time, other.time), entry.count + other.count)
        )
    newest_first = sorted(merged.values(), key=lambda entry: (-entry.time, entry.text))
    return tuple(newest_first[:MAX_HISTORY])


FEATURES = (
    "log_count",
    "log_age",
    "rank",
    "log_rank",
    "newest",
    "followed_last_query",
    "in_session",
    "word_overlap",
    "session_overlap",
    "words",
    "characters",
    "log_count_last_query",
    "log_history",
    "log_session",
    "log_count_squared",
    "log_count_by_log_age",
    "log_count_by_log_rank",
    "word_overlap_by_log_age",
    "word_overlap_by_log_rank",
    "log_count_last_query_by_log_rank",
)
"""The columns of `candidate_features`. Products are for the regression. Tried without gain: how
popular a query is with other people, HRED's likelihood of it (docs/reference/models.md), the time
of day, the share of the visitor's searches, common prefixes."""


def candidate_features(
    context: Sequence[str], history: Sequence[PastQuery], now: float
) -> tuple[list[str], Floats]:
    """The candidates of a visitor, most recent first, and their features (candidates, FEATURES).

    `context` is the session with the present query last; `history` is what was typed before the
    present query (also in this session), newest first and without repeats.
    """
    last = context[-1] if context else ""
    in_session = dict.fromkeys(reversed(context[:-1]))  # the most recent first
    in_history = {entry.text for entry in history}
    only_session = [PastQuery(query, now) for query in in_session if query not in in_history]
    entries = [entry for entry in (*only_session, *history) if entry.text != last]
    if not entries:
        return [], np.zeros((0, len(FEATURES)))
    anchor = next((entry for entry in history if entry.text == last), None)
    texts = [entry.text for entry in entries]
    times = np.array([entry.time for entry in entries])
    anchor_words = frozenset(last.split())
    session_words = frozenset(word for query in context[:-1] for word in query.split())
    words = [frozenset(text.split()) for text in texts]
    sizes = np.array([len(text_words) for text_words in words], dtype=np.float64)
    shared = np.array([len(anchor_words & text_words) for text_words in words], dtype=np.float64)
    in_both = np.array([len(session_words & text_words) for text_words in words], dtype=np.float64)

    log_count = np.log1p([entry.count for entry in entries])
    log_age = np.log1p(np.maximum(now - times, 0.0))
    rank = np.arange(len(entries), dtype=np.float64)
    log_rank = np.log1p(rank)
    overlap = shared / np.maximum(sizes + len(anchor_words) - shared, 1.0)
    log_anchor = np.log1p(anchor.count if anchor else 0)
    columns = (
        log_count,
        log_age,
        np.minimum(rank, 100.0),
        log_rank,
        rank == 0,
        _followed(times, anchor),
        [text in in_session for text in texts],
        overlap,
        in_both / np.maximum(sizes, 1.0),
        np.minimum(sizes, 10.0),
        np.minimum([len(text) for text in texts], 100),
        log_anchor,
        np.log1p(len(entries)),
        np.log1p(len(context)),
        log_count**2,
        log_count * log_age,
        log_count * log_rank,
        overlap * log_age,
        overlap * log_rank,
        log_anchor * log_rank,
    )
    rows = np.empty((len(entries), len(FEATURES)))
    for index, column in enumerate(columns):
        rows[:, index] = column
    return texts, rows


def _followed(times: Floats, anchor: PastQuery | None) -> NDArray[np.bool_]:
    """Whether a query was typed next after the last time that the present query was typed."""
    followed = np.zeros(len(times), dtype=np.bool_)
    if anchor is not None and (later := np.flatnonzero(times > anchor.time)).size:
        following = later[-1]  # newest first: the last one is the soonest after it
        followed[following] = times[following] - anchor.time <= _IDLE_SECONDS
    return followed


class ReturningSettings(Section):
    """How a model of returning visitors is fitted."""

    sessions: int = Field(default=5000, ge=1)
    """Training sessions to learn from, drawn at random, and as many validation sessions."""
    shown: float = Field(default=0.6, gt=0.0, le=1.0)
    """The largest share of requests in which something is shown, with 97.5% confidence. A query
    that is likelier than not is shown in any case."""
    precision: float = Field(default=2.0, ge=0.0)
    """A query that is shown is the next one at least this many times as often as one of the last
    three distinct queries."""
    ridge: float = Field(default=100.0, ge=0.0)
    """Weight decay, counted in candidates."""
    seed: int = Field(default=0, ge=0)
    """Decides which sessions are drawn."""


@dataclass(frozen=True)
class Regression:
    """A logistic regression."""

    weights: Floats
    """One weight per feature, then the intercept."""

    def logits(self, rows: Floats) -> Floats:
        """The log odds of each row (rows, FEATURES)."""
        return np.asarray(rows @ self.weights[:-1] + self.weights[-1])

    def check(self) -> None:
        """Refuse weights of another shape, or that are not finite."""
        require(self.weights.shape == (len(FEATURES) + 1,), "weights has a wrong shape")
        require(bool(np.isfinite(self.weights).all()), "weights has a value that is not finite")


class Returning:
    """A fitted model of returning visitors."""

    kind = KIND
    settings_type = ReturningSettings

    def __init__(
        self,
        learnt: Regression,
        threshold: float,
        settings: ReturningSettings,
        guard: Guard,
        further: float = FURTHER,
    ) -> None:
        self.learnt = learnt
        self.threshold = threshold
        """Nothing is shown if no query is as likely as this."""
        self.further = further
        """If one is, further ones may have this share of the threshold."""
        self.settings = settings
        self.guard = guard
        self.validation: dict[str, float] = {}
        """What `fit_returning` measured on the validation sessions."""
        self.data_entry: Mapping[str, Any] | None = None
        """What the manifest says of the data."""

    def probabilities(
        self, context: Sequence[str], history: Sequence[PastQuery], now: float
    ) -> list[tuple[str, float]]:
        """Every candidate with P(it is the next query), the likeliest first, ties by recency."""
        texts, rows = candidate_features(context, history, now)
        values = sigmoid(self.learnt.logits(rows))
        order = np.argsort(-values, kind="stable").tolist()
        return [(texts[index], float(values[index])) for index in order]

    def again(
        self,
        context: Sequence[str],
        history: Sequence[PastQuery],
        now: float,
        n: int = 3,
        threshold: float | None = None,
    ) -> list[Suggestion]:
        """At most `n` earlier queries with their probability as score, the likeliest first.

        Nothing is shown without a history, or if none is as likely as the threshold; the others
        may be `further` as likely. Queries are normalised. The guard's blocklist, patterns of
        personal data and hits rule apply, its K-user rule does not.
        """
        least = self.threshold if threshold is None else threshold
        suggestions: list[Suggestion] = []
        if not history:
            return suggestions
        for text, probability in self.probabilities(context, history, now):
            if len(suggestions) == n or probability < least * (
                self.further if suggestions else 1.0
            ):
                break
            if self.allows(text):
                suggestions.append(Suggestion(text, probability, SOURCE))
        return suggestions

    def complete(self, prefix: str, history: Sequence[PastQuery], n: int = 3) -> list[Suggestion]:
        """At most `n` earlier queries that begin with a normalised prefix, the newest first.

        The score is how often each was typed.
        """
        completions: list[Suggestion] = []
        for entry in history:
            if len(completions) == n:
                break
            fits = entry.text.startswith(prefix) and entry.text != prefix
            if fits and self.allows(entry.text):
                completions.append(Suggestion(entry.text, float(entry.count), SOURCE))
        return completions

    def allows(self, text: str) -> bool:
        """Whether a visitor may be shown an earlier query of their own."""
        return looks_typed(text) and bool(self.guard.allows(text, OwnText(frozenset({text}))))

    def describe(self) -> str:
        """What the model gave on the validation sessions, in one sentence."""
        figures = self.validation
        return (
            f"On {figures['requests']:,.0f} validation requests it shows something in "
            f"{figures['shown']:.0%} and has the next query in {figures['hit']:.1%}; "
            f"{figures['precision']:.1%} of what it shows is the next query."
        )

    def save(self, path: Path) -> None:
        """Publish the model as an artifact folder."""
        entries: dict[str, Any] = {
            "settings": self.settings.model_dump(mode="json"),
            "features": list(FEATURES),
            "threshold": self.threshold,
            "further": self.further,
            "validation": self.validation,
        }
        if self.data_entry is not None:
            entries["data"] = dict(self.data_entry)
        with publish(path, KIND, entries) as folder:
            np.save(folder / "weights.npy", self.learnt.weights, allow_pickle=False)

    @classmethod
    def load(
        cls, path: Path | Artifact, blocklist: Path | None = None, hits: HitsCheck | None = None
    ) -> "Returning":
        """Open a folder that `save` published, with the site's blocklist and hits check."""
        return read_artifact(path, lambda artifact: cls._read(artifact, blocklist, hits), KIND)

    @classmethod
    def _read(
        cls, artifact: Artifact, blocklist: Path | None, hits: HitsCheck | None
    ) -> "Returning":
        if list(artifact.entry("features")) != list(FEATURES):
            raise ArtifactError(f"{artifact.path}: was fitted on other features; fit it again")
        if artifact.manifest.get("learner", "regression") != "regression":
            raise ArtifactError(
                f"{artifact.path}: has boosted trees, no longer supported; fit it again"
            )
        learnt = Regression(load_array(artifact, "weights.npy", "f"))
        learnt.check()
        shares = artifact.entry("threshold"), artifact.manifest.get("further", FURTHER)
        if not all(type(share) is float and 0.0 <= share <= 1.0 for share in shares):
            raise ArtifactError(
                f"{artifact.path}: `threshold` and `further` must be 0 to 1; fit it again"
            )
        threshold, further = shares
        entries = artifact.entry("settings")
        if isinstance(entries, Mapping):  # earlier versions had a key `learner`
            entries = {key: value for key, value in entries.items() if key != "learner"}
        settings = stored_section(ReturningSettings, entries, artifact.path)
        model = cls(learnt, threshold, settings, Guard(None, blocklist, hits), further)
        model.validation = dict(artifact.entry("validation"))
        model.data_entry = artifact.manifest.get("data")
        return model


def sigmoid(values: Floats) -> Floats:
    """Probabilities of log odds."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values, -60.0, 60.0))))
