"""A trained HRED as ONNX: graphs, vocabulary, known queries and a README for other languages.

    OUT/query_encoder.onnx, session_encoder.onnx, decoder.onnx
    OUT/vocabulary.txt          a word per line, its id is the line
    OUT/known_queries.ndjson    the queries that may be shown, most frequent first
    OUT/model.json, README.md, suggest.mjs

No text leaves that the guard refuses: a word of fewer than K users, or a blocked one, is written as
`<hidden>` and so read as an unknown word.
"""

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import onnx

from nextquery.errors import ArtifactError, InputError
from nextquery.export.exported import frequent_queries
from nextquery.export.onnx_graphs import GRAPHS, OPSET
from nextquery.export.onnx_runner import OnnxModel
from nextquery.export.settings import ExportSettings
from nextquery.guard.guard import Guard
from nextquery.inference.contexts import ContextLimits
from nextquery.inference.network.network import Network
from nextquery.suggesters.base import Suggester
from nextquery.suggesters.neural import HREDSuggester
from nextquery.text.vocabulary import SPECIAL, Vocabulary
from nextquery.word_breaks import join_words

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
            f"a model of the kind {model.kind} has no network: `to` onnx takes a trained HRED; "
            "any model can be exported to json"
        )
    network = model.model
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


def model_facts(network: Network, limits: ContextLimits) -> dict[str, Any]:
    """What a program must know beside the graphs: `model.json`."""
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
    contexts = [[some[place - n] for n in range(place % 3)] for place in range(len(some))]
    candidates = [[some[(place + 1) % len(some)]] for place in range(len(some))]
    difference = max(
        abs(exported.score(context, texts[0]) - found[0].log_likelihood)
        for context, texts, found in zip(
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
    words, network = text.split(), model.model
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
