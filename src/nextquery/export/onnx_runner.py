"""Asking exported ONNX graphs with onnxruntime, as a program in another language does.

It is what checks an export against its model, and the steps that `OUT/README.md` explains. Knows
the files of an export and nothing of the model they came from.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.text.vocabulary import END_OF_QUERY, PADDING, UNKNOWN

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
        self._ids = {word: place for place, word in enumerate(words)}
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
            names = [each.name for each in self._decoder.get_outputs()]
            found = dict(zip(names, self._decoder.run(names, given), strict=True))
            word = END_OF_QUERY if text is None else self._ids.get(text, UNKNOWN)
            total += _log_probability(found, sources, text, word)
            state = found["next_decoder_state"]
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
            these = query.split()[: self._facts["max_words"]]
            vector, word_states = self._encode(these)
            state = self._extend(state, vector)
            words += these
            states.append(word_states[: len(these)])
            ages += [age] * len(these)
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
    found: dict[str, Floats], sources: Sources | None, text: str | None, word: int
) -> float:
    """The probability of the softmax, and of every source that has the word."""
    generated = float(found["log_probabilities"][0, word])
    if sources is None or text not in sources.words:
        return generated
    copied = found["copy_log_probabilities"][0, [each == text for each in sources.words]]
    if word == UNKNOWN:  # a word that only copying can give
        return float(np.logaddexp.reduce(copied))
    return float(np.logaddexp.reduce([generated, *copied]))
