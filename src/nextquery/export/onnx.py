"""Export of trained networks as ONNX, and a runner that asks the exported graphs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nextquery.errors import ArtifactError, InputError
from nextquery.export.lists import ExportSettings, frequent_queries
from nextquery.export.onnx_graphs import GRAPHS, OPSET, transformer
from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextLimits
from nextquery.inference.decoder import NeuralModel
from nextquery.inference.hred import HREDModel
from nextquery.inference.transformer import TransformerModel
from nextquery.model.settings import KIND, TRANSFORMER
from nextquery.normalise import join_words
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.neural import HREDSuggester, NeuralSuggester, TransformerSuggester
from nextquery.text.vocabulary import END_OF_QUERY, PADDING, SPECIAL, UNKNOWN, Vocabulary

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Sources:
    """The words of a session that can be copied; one of age 0 if there are none."""

    words: tuple[str, ...]
    states: Floats
    """(sources, d_h)."""
    ages: NDArray[np.int64]
    """(sources,): 1 for the last query, 2 for the one before."""

    def inputs(self) -> dict[str, NDArray[Any]]:
        """As the graphs take them."""
        return {"source_states": self.states, "source_ages": self.ages}


class OnnxModel:
    """The graphs of an export, asked one query at a time."""

    def __init__(self, folder: Path) -> None:
        facts: dict[str, Any] = json.loads((folder / "model.json").read_text("utf-8"))
        words = (folder / "vocabulary.txt").read_text("utf-8").splitlines()
        self._ids = {word: index for index, word in enumerate(words)}
        graphs = _TransformerGraphs if facts["kind"] == TRANSFORMER else _HREDGraphs
        self._graphs: _HREDGraphs | _TransformerGraphs = graphs(folder, facts)
        self._facts = facts

    def score(self, context: Sequence[str], candidate: str) -> float:
        """The natural-log likelihood of a normalised query after normalised queries."""
        read = context[-self._facts["max_queries"] :]
        queries = [query.split()[: self._facts["max_words"]] for query in read]
        ids = [[self._ids.get(word, UNKNOWN) for word in query] for query in queries]
        state: Any
        state, word_states = self._graphs.read(ids)
        sources = self._sources(queries, word_states) if self._facts["copying"] else None
        word, total = self._graphs.first_word, 0.0
        for text in (*candidate.split(), None):
            inputs = {} if sources is None else sources.inputs()
            outputs, state = self._graphs.step(state, word, inputs)
            word = END_OF_QUERY if text is None else self._ids.get(text, UNKNOWN)
            total += _log_probability(outputs, sources, text, word)
        return total

    def _sources(self, queries: Sequence[Sequence[str]], states: Sequence[Floats]) -> Sources:
        """What can be copied from these queries."""
        words = tuple(word for query in queries for word in query)
        if not words:
            nothing = np.zeros((1, self._graphs.state_size), dtype=np.float32)
            return Sources((), nothing, np.array([0]))
        ages = np.repeat(np.arange(len(queries), 0, -1), [len(query) for query in queries])
        return Sources(words, np.concatenate(states), ages)


Outputs = dict[str, Floats]


class _HREDGraphs:
    """HRED's three graphs; the state is that of the session and that of the decoder."""

    first_word = PADDING

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self._facts, self.state_size = facts, facts["query_size"]
        self._query_encoder = _opened(folder, "query_encoder")
        self._session_encoder = _opened(folder, "session_encoder")
        self._decoder = _opened(folder, "decoder")

    def read(self, queries: Sequence[Sequence[int]]) -> tuple[tuple[Floats, Floats], list[Floats]]:
        """The state after queries of word ids, and the word states of each query."""
        session = np.zeros((1, self._facts["session_size"]), dtype=np.float32)
        if self._facts["start_query"]:
            session = self._extend(session, self._encode(())[0])
        word_states = []
        for query in queries:
            vector, states = self._encode(query)
            session = self._extend(session, vector)
            word_states.append(states[: len(query)])
        nothing = np.zeros((1, self.state_size), dtype=np.float32)
        return (session, nothing), word_states

    def step(
        self, state: tuple[Floats, Floats], word: int, sources: Outputs
    ) -> tuple[Outputs, tuple[Floats, Floats]]:
        """What may come after one more word, and the state there."""
        session, before = state
        inputs = {"session_state": session, "decoder_state": before, "word": np.array([word])}
        outputs = _run(self._decoder, inputs | sources)
        return outputs, (session, outputs["next_decoder_state"])

    def _encode(self, words: Sequence[int]) -> tuple[Floats, Floats]:
        """The vector (1, d_h) of a query, and with copying the states of its words."""
        ids = [*words, END_OF_QUERY]
        inputs = {"words": np.array([ids]), "lengths": np.array([len(ids)])}
        vector, *states = self._query_encoder.run(None, inputs)
        return vector, states[0][0] if states else vector

    def _extend(self, state: Floats, vector: Floats) -> Floats:
        inputs = {"session_state": state, "query_vector": vector}
        extended: Floats = self._session_encoder.run(None, inputs)[0]
        return extended


class _TransformerGraphs:
    """The Transformer's graph; the state is its cache, without the symbol that is read next."""

    first_word = END_OF_QUERY

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.state_size = facts["model_size"]
        self._graph = _opened(folder, "transformer")
        self._empty = np.zeros((1, 0, facts["layers"], 2, self.state_size), dtype=np.float32)
        copying = facts["copying"]
        nothing = Sources((), np.zeros((1, self.state_size), dtype=np.float32), np.array([0]))
        self._no_sources = nothing.inputs() if copying else {}

    def read(self, queries: Sequence[Sequence[int]]) -> tuple[Floats, list[Floats]]:
        """The state after queries of word ids, and the word states of each query."""
        symbols = [END_OF_QUERY, *(word for query in queries for word in (*query, END_OF_QUERY))]
        if len(symbols) == 1:
            return self._empty, []
        inputs = {"words": np.array([symbols[:-1]]), "cache": self._empty}
        outputs = _run(self._graph, inputs | self._no_sources)
        word_states, first = [], 1
        for query in queries:
            word_states.append(outputs["word_states"][0, first : first + len(query)])
            first += len(query) + 1
        return outputs["next_cache"], word_states

    def step(self, state: Floats, word: int, sources: Outputs) -> tuple[Outputs, Floats]:
        """What may come after one more word, and the state there."""
        outputs = _run(self._graph, {"words": np.array([[word]]), "cache": state} | sources)
        return outputs, outputs["next_cache"]


def _opened(folder: Path, name: str) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(
        str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"]
    )


def _run(graph: Any, inputs: dict[str, NDArray[Any]]) -> Outputs:
    names = [output.name for output in graph.get_outputs()]
    return dict(zip(names, graph.run(names, inputs), strict=True))


def _log_probability(
    outputs: dict[str, Floats], sources: Sources | None, text: str | None, word: int
) -> float:
    """The probability of the softmax, and of every source that has the word."""
    generated = float(outputs["log_probabilities"][0, word])
    if sources is None or text not in sources.words:
        return generated
    copied = outputs["copy_log_probabilities"][0, [source == text for source in sources.words]]
    if word == UNKNOWN:  # a word that only copying can give
        return float(np.logaddexp.reduce(copied))
    return float(np.logaddexp.reduce([generated, *copied]))


HIDDEN = "<hidden>"
LARGEST_DIFFERENCE = 1e-2
"""Of two log-likelihoods of a query, in natural logarithms: ten times what 32 bits ever cost."""
_CHECKED_QUERIES = 60
_COPYING = """
With copying, `{decoder}` also takes the words of the session that it may point at, the same for all
prefixes: `source_states` (sources, {state_size}), the `word_states` of every word that was read;
`source_ages` int64 (sources), 1 for words of the last query, 2 for the one before and so on. An
empty session has one source of zeros with age 0. It also gives `copy_log_probabilities`
(prefixes, sources). The probability of a word is that of `log_probabilities` plus those of all
sources that are this word; a word outside the vocabulary has the latter only, and is read as 2.
"""
_SPELLING = """
The model itself reads a word outside the vocabulary by its character n-grams; the graphs read it
as 2.
"""


def write_onnx(model: Suggester, folder: Path, settings: ExportSettings) -> tuple[int, float]:
    """Write the folder; returns the known queries and the largest difference from the model."""
    if not isinstance(model, HREDSuggester | TransformerSuggester):
        raise InputError(
            f"`to` onnx takes a trained network, not a model of the kind {model.kind}; "
            "any model can be exported to json"
        )
    frequent = frequent_queries(model, settings.queries)
    write_graphs(model.model, model.limits, folder)
    words = shown_words(model.model.vocabulary, model.guard)
    _write(folder / "vocabulary.txt", "".join(f"{word}\n" for word in words))
    lines = (
        json.dumps({"query": text, "shown": join_words(text), "count": count}, ensure_ascii=False)
        for text, count in frequent
    )
    _write(folder / "known_queries.ndjson", "".join(f"{line}\n" for line in lines))
    difference = _difference(folder, model, [text for text, _ in frequent])
    _write(folder / "suggest.mjs", _template("onnx_suggest.mjs"))
    facts = model_facts(model.model, model.limits)
    _write(folder / "README.md", _readme(facts, model.guard, difference))
    return len(frequent), difference


def write_graphs(model: NeuralModel[Any], limits: ContextLimits, folder: Path) -> None:
    """Write the graphs of a network, and `model.json`."""
    if isinstance(model, HREDModel):
        graphs = {name: make(model.network) for name, make in GRAPHS.items()}
    else:
        assert isinstance(model, TransformerModel)
        graphs = {"transformer": transformer(model)}
    for name, graph in graphs.items():
        onnx.save_model(graph, folder / f"{name}.onnx")
    _write(folder / "model.json", json.dumps(model_facts(model, limits), indent=2) + "\n")


def model_facts(model: NeuralModel[Any], limits: ContextLimits) -> dict[str, Any]:
    """What a program needs in addition to the graphs: `model.json`."""
    facts = {
        "version": 2,
        "words": len(model.vocabulary),
        "max_queries": limits.queries,
        "max_words": limits.words,
        "copying": model.copies,
    }
    if isinstance(model, HREDModel):
        config = model.network.config
        names = ("query_size", "session_size", "start_query", "character_ngrams")
        return {"kind": KIND, **facts} | {name: getattr(config, name) for name in names}
    assert isinstance(model, TransformerModel)
    sizes = {"model_size": model.config.model_size, "layers": model.config.layers}
    return {"kind": TRANSFORMER, **facts, **sizes}


def shown_words(vocabulary: Vocabulary, guard: Guard) -> list[str]:
    """The words by id, without those that the guard refuses."""
    words = vocabulary.words[len(SPECIAL) :]
    return [*SPECIAL, *(HIDDEN if guard.refusal(word) else word for word in words)]


def _difference(folder: Path, model: NeuralSuggester, known: Sequence[str]) -> float:
    """The largest difference of log-likelihoods between the graphs and the model.

    Contexts of none, one and two known queries, each followed by another.
    """
    exported = OnnxModel(folder)
    checked = [text for text in known[: 4 * _CHECKED_QUERIES] if _read_alike(text, model)]
    checked = checked[:_CHECKED_QUERIES] or [""]
    contexts = [[checked[index - n] for n in range(index % 3)] for index in range(len(checked))]
    candidates = [[checked[(index + 1) % len(checked)]] for index in range(len(checked))]
    difference = max(
        abs(exported.score(context, texts[0]) - scores[0].log_likelihood)
        for context, texts, scores in zip(
            contexts, candidates, model.score_many(contexts, candidates), strict=True
        )
    )
    if not difference <= LARGEST_DIFFERENCE:
        raise ArtifactError(
            f"the exported graphs score a query by {difference:.3g} differently from the model: "
            "please report this with the model's configuration"
        )
    return difference


def _read_alike(text: str, model: NeuralSuggester) -> bool:
    """Whether graphs and model read the same words: none is hidden or known by its n-grams."""
    words, network = text.split(), model.model
    by_spelling = isinstance(network, HREDModel) and network.network.config.character_ngrams
    spelt = by_spelling and any(word not in network.vocabulary for word in words)
    return not spelt and not any(model.guard.refusal(word) for word in words)


def _readme(facts: dict[str, Any], guard: Guard, difference: float) -> str:
    users = guard.tables.min_users
    typed = f"at least {users} users typed" if users > 1 else "are in the log"
    if facts["kind"] == TRANSFORMER:
        name, decoder, state_size = "onnx_transformer.md", "transformer", facts["model_size"]
    else:
        name, decoder, state_size = "onnx_hred.md", "decoder", facts["query_size"]
    copying = "\n" + _COPYING.format(decoder=decoder, state_size=state_size)
    word_states = ", and `word_states` (queries, words, same)"
    graphs, steps = _template(name).split("\n---\n")
    values = {
        **facts,
        "word_states": word_states if facts["copying"] else "",
        "copying": copying if facts["copying"] else "",
    }
    return _template("onnx_readme.md").format(
        network="The session Transformer" if facts["kind"] == TRANSFORMER else "HRED",
        graphs=graphs.strip(),
        steps=steps.strip().format(**values),
        opset=OPSET,
        checked=_CHECKED_QUERIES,
        difference=difference,
        spelling=_SPELLING if facts.get("character_ngrams") else "",
        guarded=f"{typed} and nothing blocks",
    )


def _template(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
