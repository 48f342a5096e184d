"""Search Shortcuts (SS) after Broccolo et al. (IPM 2012): how similar sessions ended.

A session is satisfactory when its last query was clicked. All satisfactory sessions with the same
last query make one document: the words of all their queries. The words of the current session are
looked up in an index of these documents, and their last queries are suggested:

    w(q) = alpha BM25(session, q) / highest BM25 + (1 - alpha) freq(q) / highest freq

over the documents retrieved, `freq` counting the satisfactory sessions that ended in `q`. Words
are looked up, not queries, so that a query never seen has an answer; their order is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import bm25s
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nextquery.artifacts import Artifact
from nextquery.artifacts.arrays import (
    check_length,
    check_offsets,
    check_positive,
    check_range,
    load_array,
    require,
)
from nextquery.errors import InputError
from nextquery.records import Suggestion
from nextquery.suggesters.background import (
    DAY,
    Ages,
    AgingSettings,
    Background,
    count_background,
    load_record,
    save_array,
    save_record,
    with_day,
)
from nextquery.suggesters.count_suggester import CountSuggester, seen

if TYPE_CHECKING:
    import polars as pl

    from nextquery.suggesters.sequences import BackgroundLog


class ShortcutsSettings(AgingSettings):
    """Which sessions are indexed and how they are ranked."""

    satisfactory: bool | None = None
    """Index only sessions whose last query was clicked (true) or all (false); none: only those,
    unless there are none. A fitted model has true or false."""
    alpha: float = Field(default=0.5, ge=0, le=1)
    """The weight of the words' similarity; the rest goes to how often sessions ended so."""
    window: int = Field(default=10, ge=1)
    """How many of the last queries of the session are looked up."""
    retrieved: int = Field(default=200, ge=1)
    """How many of the most similar documents are ranked."""
    k1: float = Field(default=1.2, ge=0)
    """BM25: how soon more occurrences of a word stop counting."""
    b: float = Field(default=0.75, ge=0, le=1)
    """BM25: how much long documents are held back."""


@dataclass(frozen=True)
class Index:
    """The arrays that bm25s makes: word `w` is `indptr[w]:indptr[w + 1]` of the other two."""

    data: NDArray[np.float32]
    """The BM25 of the word in each document that has it."""
    indices: NDArray[np.int32]
    """These documents."""
    indptr: NDArray[np.int32]

    def similarities(self, words: Sequence[int], documents: int) -> NDArray[np.float32]:
        """The BM25 of each document for a set of words."""
        scores = np.zeros(documents, np.float32)
        for word in words:
            postings = slice(self.indptr[word], self.indptr[word + 1])
            # A document is listed once a word, so that plain adding is enough.
            scores[self.indices[postings]] += self.data[postings]
        return scores

    def check(self, words: int, documents: int) -> None:
        """Refuse arrays that are not an index of `words` words in `documents` documents."""
        check_offsets("index_indptr", self.indptr, words, len(self.indices))
        check_length("index_data", self.data, len(self.indices))
        check_range("index_indices", self.indices, documents)
        require(bool(np.isfinite(self.data).all()), "index_data has a value that is not a number")


class Shortcuts(CountSuggester[ShortcutsSettings]):
    """The last queries of the sessions most similar to this one."""

    kind = "shortcuts"
    settings_type = ShortcutsSettings

    def __init__(
        self,
        settings: ShortcutsSettings,
        background: Background,
        index: Index,
        endings: NDArray[np.int32],
        sessions: NDArray[Any],
    ) -> None:
        super().__init__(settings, background)
        self.index = index
        self.endings = endings
        """The query that each document stands for, ascending."""
        self.sessions = sessions
        """How many sessions ended in it, or what they weigh by their age."""

    def best(self, context: Sequence[str], limit: int) -> list[Suggestion]:
        """The endings of the most similar sessions."""
        documents, weights = self._similar(context)
        best = _highest(weights, limit)
        suggestions = [
            Suggestion(
                self.background.text(int(self.endings[document])),
                weight,
                seen(self.sessions[document], "at the end of a similar session"),
            )
            for document, weight in zip(
                documents[best].tolist(), weights[best].tolist(), strict=True
            )
        ]
        return sorted(suggestions, key=lambda item: (-item.score, item.text))[:limit]

    def log_score(self, score: float) -> float:
        """The weight of a document as a logarithm."""
        return log(score)

    def log_probabilities(self, context: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """Half of the probability is shared by the retrieved endings, the rest is the prior's."""
        documents, weights = self._similar(context)
        match_weight = 0.5 if len(documents) else 0.0
        share = dict(zip(self.endings[documents].tolist(), weights / weights.sum(), strict=True))
        return [
            log(1 - match_weight) + self.background.log_prior(candidate)
            if query is None or query not in share
            else log(
                match_weight * float(share[query])
                + (1 - match_weight) * self.background.prior(query)
            )
            for candidate, query in ((text, self.background.id(text)) for text in candidates)
        ]

    def write(self, folder: Path) -> None:
        """Write the index and what its documents stand for."""
        save_record(folder, "index", self.index)
        save_array(folder, "endings.npy", self.endings)
        save_array(folder, "sessions.npy", self.sessions)

    @classmethod
    def read(cls, artifact: Artifact, settings: ShortcutsSettings, background: Background) -> Self:
        """Map the index and what its documents stand for."""
        endings = load_array(artifact, "endings.npy")
        sessions = load_array(artifact, "sessions.npy")
        index = load_record(artifact, "index", Index)
        return cls(settings, background, index, endings, sessions)

    def check(self) -> None:
        """Refuse contents that do not fit together."""
        super().check()
        check_range("endings", self.endings, len(self.background.counts))
        check_length("sessions", self.sessions, len(self.endings))
        check_positive("sessions", self.sessions)
        self.index.check(len(self.background.word_counts), len(self.endings))

    def _similar(self, context: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The documents most similar to a context and their weights, in no particular order."""
        words = {word for query in context[-self.settings.window :] for word in query.split()}
        known_words = sorted(
            self.background.words[word] for word in words if word in self.background.words
        )
        if not known_words:
            return np.empty(0, np.intp), np.empty(0)
        similar = self.index.similarities(known_words, len(self.endings))
        documents = _highest(similar, self.settings.retrieved)
        if not len(documents):
            return documents, np.empty(0)
        similarity = similar[documents].astype(np.float64)
        frequency = self.sessions[documents].astype(np.float64)
        alpha = self.settings.alpha
        weights = alpha * similarity / similarity.max()
        return documents, weights + (1 - alpha) * frequency / frequency.max()


def _highest(scores: NDArray[np.floating[Any]], limit: int) -> NDArray[np.intp]:
    """The indices of the `limit` highest positive scores, and of all that equal the last one."""
    positive = np.flatnonzero(scores)
    if len(positive) <= limit:
        return positive
    values = scores[positive]
    least = np.partition(values, len(values) - limit)[len(values) - limit]
    return np.asarray(positive[values >= least])


def fit_shortcuts(log: BackgroundLog, settings: ShortcutsSettings) -> Shortcuts:
    """Group satisfactory sessions by their last query and index their words."""
    import polars as pl

    from nextquery.suggesters.sequences import useful_factors

    background = count_background(log.data)
    satisfactory, endings, texts = _documents(log, settings)
    settings = settings.model_copy(update={"satisfactory": satisfactory})
    ids = background.ids(endings["ending"].to_list())
    ordered = endings.with_columns(id=pl.Series(ids)).sort("id")
    document_index = dict(zip(ordered["ending"], range(len(ordered)), strict=True))
    index = _index(texts, document_index, background, settings)
    undecayed = settings.half_life_days is None
    sessions = ordered["count"].cast(pl.Int32 if undecayed else pl.Float64).to_numpy()
    factors = useful_factors(log, background, settings.useful_weight)
    if factors is not None:
        sessions = sessions * factors[ordered["id"].to_numpy()]
    return Shortcuts(settings, background, index, ordered["id"].to_numpy(), sessions)


def _documents(
    log: BackgroundLog, settings: ShortcutsSettings
) -> tuple[bool, pl.DataFrame, pl.DataFrame]:
    """How many sessions end in each known query, and which queries they hold how often.

    Before them, whether only clicked ends were taken: the log decides where that is left open. A
    session belongs to the day of its last query. Its age changes how much its ending weighs,
    not what the index says of its words; outside the window it is left out.
    """
    import narwhals as nw
    import polars as pl

    from nextquery.suggesters.sequences import collected

    session_ends = _ends(log)
    clicked = session_ends.filter(nw.col("clicks") > 0)
    ages = log.ages(settings) or Ages(settings, date.max)
    ends = session_ends if settings.satisfactory is False else clicked
    endings = _weighed(ends, ages)
    if endings.is_empty() and settings.satisfactory is None:
        ends, endings = session_ends, _weighed(session_ends, ages)
    if endings.is_empty():
        raise InputError(
            f"{log.data.path}: no session ends in a known query that was clicked; "
            "take all sessions with `satisfactory=false`"
        )
    chosen = ends.select("session", "ending", DAY)
    session_queries = log.rows().select("session", "query").join(chosen, on="session", how="inner")
    counted = collected(
        session_queries.group_by("ending", "query", DAY).agg(nw.len().alias("count"))
    )
    texts = counted.filter(ages.within()).group_by("ending", "query").agg(pl.col("count").sum())
    return ends is clicked, endings, texts


def _ends(log: BackgroundLog) -> Any:
    """The known queries in which sessions end, one row per session, with day and clicks.

    Kept: Polars would reorder a join of the rows with themselves that it has not yet computed, and
    pair every query of a session with every other.
    """
    import narwhals as nw

    last = nw.col("position").max().over("session")
    rows = with_day(log.rows()).filter(nw.col("position") == last)
    ends = rows.join(log.table(log.known(), "known"), on="query", how="inner")
    ends = ends.select("session", nw.col("query").alias("ending"), DAY, "clicks")
    return log.engine.materialise(ends, "session_ends")


def _weighed(ends: Any, ages: Ages) -> pl.DataFrame:
    import narwhals as nw

    from nextquery.suggesters.sequences import collected

    daily = collected(ends.group_by("ending", DAY).agg(nw.len().alias("count")))
    return ages.weigh(daily, ["ending"])


def _index(
    texts: pl.DataFrame,
    document_index: dict[str, int],
    background: Background,
    settings: ShortcutsSettings,
) -> Index:
    """A BM25 index with a document an ending; its words have the background's numbers."""
    documents: list[list[int]] = [[] for _ in document_index]
    for ending, query, count in texts.sort("ending", "query").iter_rows():
        words = (background.words.get(word) for word in query.split())
        documents[document_index[ending]] += [word for word in words if word is not None] * count
    names = {background.words.restore_key(word): word for word in range(len(background.words))}
    bm25 = bm25s.BM25(k1=settings.k1, b=settings.b)
    tokens = bm25s.tokenization.Tokenized(ids=documents, vocab=names)
    bm25.index(tokens, create_empty_token=False, show_progress=False)
    return Index(bm25.scores["data"], bm25.scores["indices"], bm25.scores["indptr"])
