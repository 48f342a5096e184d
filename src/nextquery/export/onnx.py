"""Export of HRED as ONNX, and a runner that asks the exported graphs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nextquery.errors import ArtifactError, InputError
from nextquery.export.engines import ExportSettings, frequent_queries
from nextquery.export.onnx_graphs import GRAPHS, OPSET
from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextLimits
from nextquery.inference.hred_network import HREDNetwork
from nextquery.normalise import join_words
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.neural import HREDSuggester
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


class OnnxModel:
    """The graphs of an export, asked one query at a time."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        def opened(name: str) -> Any:
            return onnxruntime.InferenceSession(
                str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"]
            )

        self._facts: dict[str, Any] = json.loads((folder / "model.json").read_text("utf-8"))
        words = (folder / "vocabulary.txt").read_text("utf-8").splitlines()
        self._ids = {word: index for index, word in enumerate(words)}
        self._query_encoder = opened("query_encoder")
        self._session_encoder = opened("session_encoder")
        self._decoder = opened("decoder")

    def score(self, context: Sequence[str], candidate: str) -> float:
        """The natural-log likelihood of a normalised query after normalised queries."""
        session, sources = self._session(context)
        state = np.zeros((1, self._facts["query_size"]), dtype=np.float32)
        word, total = PADDING, 0.0
        for text in (*candidate.split(), None):
            given = {"session_state": session, "decoder_state": state, "word": np.array([word])}
            if sources is not None:
                given |= {"source_states": sources.states, "source_ages": sources.ages}
            names = [output.name for output in self._decoder.get_outputs()]
            outputs = dict(zip(names, self._decoder.run(names, given), strict=True))
            word = END_OF_QUERY if text is None else self._ids.get(text, UNKNOWN)
            total += _log_probability(outputs, sources, text, word)
            state = outputs["next_decoder_state"]
        return total

    def _session(self, context: Sequence[str]) -> tuple[Floats, Sources | None]:
        """The session state (1, d_s) after these queries, and what can be copied from them."""
        state = np.zeros((1, self._facts["session_size"]), dtype=np.float32)
        if self._facts["start_query"]:
            state = self._extend(state, self._encode(())[0])
        words: list[str] = []
        states, ages = [], []
        read = context[-self._facts["max_queries"] :]
        for age, query in zip(range(len(read), 0, -1), read, strict=True):
            query_words = query.split()[: self._facts["max_words"]]
            vector, word_states = self._encode(query_words)
            state = self._extend(state, vector)
            words += query_words
            states.append(word_states[: len(query_words)])
            ages += [age] * len(query_words)
        if not self._facts["copying"]:
            return state, None
        if not words:
            nothing = np.zeros((1, self._facts["query_size"]), dtype=np.float32)
            return state, Sources((), nothing, np.array([0]))
        return state, Sources(tuple(words), np.concatenate(states), np.array(ages))

    def _encode(self, words: Sequence[str]) -> tuple[Floats, Floats]:
        """The vector (1, d_h) of a query, and with copying the states of its words."""
        ids = [*(self._ids.get(word, UNKNOWN) for word in words), END_OF_QUERY]
        given = {"words": np.array([ids]), "lengths": np.array([len(ids)])}
        vector, *states = self._query_encoder.run(None, given)
        return vector, states[0][0] if states else vector

    def _extend(self, state: Floats, vector: Floats) -> Floats:
        given = {"session_state": state, "query_vector": vector}
        extended: Floats = self._session_encoder.run(None, given)[0]
        return extended


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
_PACKAGE = "nextquery.export"
_COPYING = """
With copying, `decoder` also takes the words of the session that it may point at, the same for all
prefixes: `source_states` (sources, {query_size}), the `word_states` of every word that was read;
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
    if not isinstance(model, HREDSuggester):
        raise InputError(
            f"`to` onnx takes a trained HRED, not a model of the kind {model.kind}; "
            "any model can be exported to json"
        )
    network = model.network
    known = frequent_queries(model, settings.queries)
    for name, make in GRAPHS.items():
        onnx.save_model(make(network), folder / f"{name}.onnx")
    facts = model_facts(network, model.limits)
    _write(folder / "model.json", json.dumps(facts, indent=2) + "\n")
    words = shown_words(network.vocabulary, model.guard)
    _write(folder / "vocabulary.txt", "".join(f"{word}\n" for word in words))
    lines = (
        json.dumps({"query": text, "shown": join_words(text), "count": count}, ensure_ascii=False)
        for text, count in known
    )
    _write(folder / "known_queries.ndjson", "".join(f"{line}\n" for line in lines))
    difference = _difference(folder, model, [text for text, _ in known])
    _write(folder / "suggest.mjs", _template("onnx_suggest.mjs"))
    _write(folder / "README.md", _readme(facts, model.guard, difference))
    return len(known), difference


def model_facts(network: HREDNetwork, limits: ContextLimits) -> dict[str, Any]:
    """What a program needs in addition to the graphs: `model.json`."""
    config = network.config
    return {
        "version": 1,
        "words": len(network.vocabulary),
        "query_size": config.query_size,
        "session_size": config.session_size,
        "max_queries": limits.queries,
        "max_words": limits.words,
        "start_query": config.start_query,
        "copying": config.copying,
        "character_ngrams": config.character_ngrams,
    }


def shown_words(vocabulary: Vocabulary, guard: Guard) -> list[str]:
    """The words by id, without those that the guard refuses."""
    words = vocabulary.words[len(SPECIAL) :]
    return [*SPECIAL, *(HIDDEN if guard.refusal(word) else word for word in words)]


def _difference(folder: Path, model: HREDSuggester, known: Sequence[str]) -> float:
    """The largest difference of log-likelihoods between the graphs and the model.

    Contexts of none, one and two known queries, each followed by another.
    """
    exported = OnnxModel(folder)
    some = [text for text in known[: 4 * _CHECKED_QUERIES] if _read_alike(text, model)]
    some = some[:_CHECKED_QUERIES] or [""]
    contexts = [[some[index - n] for n in range(index % 3)] for index in range(len(some))]
    candidates = [[some[(index + 1) % len(some)]] for index in range(len(some))]
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


def _read_alike(text: str, model: HREDSuggester) -> bool:
    """Whether graphs and model read the same words: none is hidden or known by its n-grams."""
    words, network = text.split(), model.network
    spelt = network.config.character_ngrams and any(
        word not in network.vocabulary for word in words
    )
    return not spelt and not any(model.guard.refusal(word) for word in words)


def _readme(facts: dict[str, Any], guard: Guard, difference: float) -> str:
    copying, spelling = facts["copying"], _SPELLING if facts["character_ngrams"] else ""
    users = guard.tables.min_users
    typed = f"at least {users} users typed" if users > 1 else "are in the log"
    return _template("onnx_readme.md").format(
        **{key: facts[key] for key in ("query_size", "session_size", "words")},
        opset=OPSET,
        checked=_CHECKED_QUERIES,
        difference=difference,
        word_states=", and `word_states` (queries, words, same)" if copying else "",
        copying="\n" + _COPYING.format(**facts) if copying else "",
        spelling=spelling,
        guarded=f"{typed} and nothing blocks",
    )


def _template(name: str) -> str:
    return (resources.files(_PACKAGE) / name).read_text("utf-8")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
