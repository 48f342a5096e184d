"""A second network through the same code: a session's memory and a state are opaque to callers.

The toy network is a bigram model whose memory of a session is a string and whose decoder state is a
list of tuples of strings. It has no gates and cannot explain itself.
"""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery import PreparedData, load
from nextquery.artifacts import Artifact, publish
from nextquery.guard.tables import write_tables
from nextquery.inference.context import ContextBatch, Floats
from nextquery.inference.decoder import Ids, Prediction, SearchStart
from nextquery.inference.output import OutputLayer
from nextquery.inference.settings import DecodeConfig, Mode
from nextquery.service.engine import SuggestQuestion, open_engine
from nextquery.suggesters.base import Explainer, Gated, SuggestOptions, Trained
from nextquery.suggesters.blend import BlendSettings, make_blend
from nextquery.suggesters.loading import MODEL_KINDS, ModelKind
from nextquery.suggesters.neural import NeuralSuggester
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, Vocabulary

CONTEXT = ("oslo hotels", "rome flights")
FREE = DecodeConfig(specificity=0.0, known="free", fold=False, max_words=2, beam=300, quality=False)
"""A beam that holds every query of two words: nothing is cut off."""

ToyState = list[tuple[str, ...]]
"""Of each prefix: what is remembered of its session, and its words."""


class ToyModel:
    """P(word | last word, memory): a table of scores, and words of the memory score 2 more."""

    copies = False
    query_size = 1
    usefulness_head = None

    def __init__(self, words: Sequence[str]) -> None:
        self.vocabulary = Vocabulary(words)
        size = len(self.vocabulary)
        self._scores = np.random.default_rng(3).normal(size=(size, size)).astype(np.float32)
        self._output = OutputLayer(np.eye(size, dtype=np.float32), None)

    def read_sessions(self, sessions: Sequence[Sequence[str]]) -> list[str]:
        return [session[-1] if session else "" for session in sessions]

    def extend_session(self, memory: str, query: str) -> str:
        return query

    def query_vectors(self, queries: Sequence[str]) -> Floats:
        return np.array([[len(query)] for query in queries], dtype=np.float32)

    def word_vectors(self) -> Floats:
        return self._scores

    def decoder(self, mode: Mode) -> "ToyModel":
        return self

    def start(self, batch: ContextBatch[str]) -> ToyState:
        return [(memory,) for memory in batch.memories]

    def select(self, state: ToyState, rows: Ids | slice) -> ToyState:
        return [state[row] for row in np.arange(len(state))[rows]]

    def advance(self, state: ToyState, parents: Ids, words: Ids) -> ToyState:
        known = self.vocabulary.words
        return [(*state[parent], known[word]) for parent, word in zip(parents, words, strict=True)]

    def predict(self, state: ToyState) -> Prediction:
        return self._output.predict(np.stack([self.logits(*prefix) for prefix in state]), None)

    def steps(self, start: SearchStart, config: DecodeConfig) -> None:
        return None

    def logits(self, memory: str, *words: str) -> Floats:
        last = self.vocabulary.id(words[-1]) if words else PADDING
        logits: Floats = self._scores[last].copy()
        logits[[self.vocabulary.id(word) for word in memory.split()]] += 2.0
        return logits

    def log_likelihood(self, memory: str, query: str) -> float:
        """The same by hand, without a decoder."""
        words, total = query.split(), 0.0
        for position, word in enumerate([*self.vocabulary.encode(query)]):
            logits = self.logits(memory, *words[:position]).astype(float)
            logits[PADDING] = -math.inf
            total += float(logits[word] - np.logaddexp.reduce(logits))
        return total


class ToySuggester(NeuralSuggester):
    kind = "toy"

    @staticmethod
    def open_model(artifact: Artifact) -> "ToyModel":
        return ToyModel(json.loads(artifact.file("words.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module", autouse=True)
def toy_kind() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODEL_KINDS, "toy", ModelKind(f"{__name__}:ToySuggester", neural=True))
        yield


@pytest.fixture(scope="module")
def folder(town_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("toy") / "model"
    words = sorted(town_data.words())
    with publish(target, "toy", {}) as partial:
        (partial / "words.json").write_text(json.dumps(words), encoding="utf-8")
        write_tables(town_data, partial)
    return target


@pytest.fixture(scope="module")
def toy(folder: Path) -> ToySuggester:
    suggester = load(folder)
    assert isinstance(suggester, ToySuggester)
    return suggester


def by_hand(toy: ToySuggester, memory: str) -> dict[str, float]:
    """The log-likelihood of every query of one or two words."""
    model: Any = toy.model
    words = list(model.vocabulary.words[3:])
    queries = [*words, *(" ".join(pair) for pair in itertools.product(words, words))]
    return {query: model.log_likelihood(memory, query) for query in queries}


def test_it_is_a_trained_model_without_gates(toy: ToySuggester) -> None:
    assert isinstance(toy, Trained)
    assert not isinstance(toy, Explainer | Gated)


def test_search_finds_the_most_likely_queries(toy: ToySuggester) -> None:
    expected = sorted(by_hand(toy, CONTEXT[-1]).items(), key=lambda item: -item[1])
    suggestions = toy.suggest(CONTEXT, 10, config=FREE)
    shown = [(text, score) for text, score in expected if text not in CONTEXT][:10]
    assert [query.text for query in suggestions] == [text for text, _ in shown]
    assert [query.score for query in suggestions] == pytest.approx([s for _, s in shown], abs=1e-4)


def test_sessions_are_decoded_together_and_extended(toy: ToySuggester) -> None:
    contexts = [CONTEXT, (), ("lima museum",)]
    together = toy.suggest_many(contexts, 5)
    assert together == [toy.suggest(context, 5) for context in contexts]
    state = toy.extend(toy.extend(toy.start(), CONTEXT[0]), CONTEXT[1])
    assert toy.suggest_after([state], 5) == together[:1]


def test_rescoring_gives_the_likelihoods(toy: ToySuggester) -> None:
    expected = by_hand(toy, CONTEXT[-1])
    scored = toy.score(CONTEXT, list(expected))
    assert [query.log_likelihood for query in scored] == pytest.approx(
        list(expected.values()), abs=1e-4
    )


def test_completions_are_the_most_likely_queries_with_the_prefix(toy: ToySuggester) -> None:
    expected = by_hand(toy, CONTEXT[-1])
    best = sorted((q for q in expected if q.startswith("oslo h")), key=lambda q: -expected[q])
    completions = toy.complete(CONTEXT, "oslo h", 10, config=FREE)
    two_words = [query.text for query in completions if len(query.text.split()) == 2]
    assert two_words == [query for query in best if query not in CONTEXT]
    assert all(query.text.startswith("oslo h") for query in completions)


def test_queries_are_sampled(toy: ToySuggester) -> None:
    config = FREE.model_copy(update={"strategy": "sample", "seed": 4})
    drawn = toy.suggest(CONTEXT, 10, config=config)
    assert len(drawn) > 3
    assert drawn == toy.suggest(CONTEXT, 10, config=config)
    expected = by_hand(toy, CONTEXT[-1])
    for query in drawn:
        assert query.score == pytest.approx(expected[query.text], abs=1e-4)


def test_it_is_blended_and_served(
    toy: ToySuggester, folder: Path, parts: list[Path], town_data: PreparedData, tmp_path: Path
) -> None:
    settings = BlendSettings(cases=100)
    blend = make_blend(folder, parts[1:], town_data, tmp_path / "blend", settings)
    assert not isinstance(blend, Explainer | Gated)
    assert blend.suggest(["oslo hotels"], 5)[0].text == "oslo hotel prices"
    text = "oslo hotel prices"
    weights = list(blend.weights().values())[-1].values()  # both count models have candidates
    models = [toy, *map(load, parts[1:])]
    single = [math.exp(model.score(["oslo hotels"], [text])[0].log_likelihood) for model in models]
    mixed = sum(weight * p for weight, p in zip(weights, single, strict=True))
    [scored] = blend.score(["oslo hotels"], [text])
    assert scored.log_likelihood == pytest.approx(math.log(mixed), abs=1e-4)
    engine = open_engine(tmp_path / "blend", None)
    assert not engine.immediate
    assert not engine.facts.explains
    [served] = engine.answer([SuggestQuestion(CONTEXT, SuggestOptions(n=4))])
    assert served[0].text == "rome cheap flights"


def test_the_end_of_a_query_is_a_word_like_any_other(toy: ToySuggester) -> None:
    model: Any = toy.model
    batch = ContextBatch(model.vocabulary, [toy.start()])
    prediction = model.predict(model.start(batch))
    every = np.arange(1, len(model.vocabulary))[None]
    assert np.exp(prediction.of(every)).sum() == pytest.approx(1.0, abs=1e-5)
    assert prediction.end[0] == prediction.of(every)[0, END_OF_QUERY - 1]
