"""What decoding settings do to the lists, on sessions that the model was not trained on.

- agreement: how much of the exact top 10 the fast output layer finds;
- length: the true next query among the suggestions, with and without length normalisation;
- diversity: what the lists gain in variety and lose in likelihood as the setting rises.

`NEXTQUERY_BENCH_MODEL` and `NEXTQUERY_BENCH_DATA` name a trained model and the data folder whose
validation sessions are asked; without them a small model of a synthetic log is trained first. Only
aggregates are printed, never a query.
"""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.engine import Cases, model_and_data, validation_cases
from nextquery import load
from nextquery.evaluation.lists import list_diversity, word_overlap
from nextquery.inference.settings import DecodeConfig
from nextquery.logs.data_folder import PreparedData
from nextquery.records import Suggestion
from nextquery.suggesters.neural import HREDSuggester

Lists = list[list[Suggestion]]


def main(quick: bool) -> dict[str, Any]:
    """Measure agreement, length normalisation and diversity."""
    with tempfile.TemporaryDirectory() as folder:
        model, data = model_and_data(Path(folder))
        suggester = load(model)
        assert isinstance(suggester, HREDSuggester)
        cases = validation_cases(PreparedData(data), 60 if quick else 600)
        fewer = Cases(cases.contexts[::2], cases.following[::2])
        return {
            "contexts": len(cases.contexts),
            "words": len(suggester.model.vocabulary),
            "agreement": {"contexts": len(fewer.contexts), **agreement(suggester, fewer)},
            "length": length(suggester, cases),
            "diversity": diversity(suggester, cases),
        }


def agreement(suggester: HREDSuggester, cases: Cases) -> dict[str, Any]:
    """Fast against exact: the ten best, the first, and the largest difference of scores."""
    result = {}
    for beam in (10, 50):
        exact, fast = (
            suggester.suggest_many(
                cases.contexts,
                10,
                config=DecodeConfig(specificity=0.0, mode=mode, beam=beam, fold=False),
            )
            for mode in ("exact", "fast")
        )
        pairs = list(zip(map(_scores, exact), map(_scores, fast), strict=True))
        common = [one.keys() & other.keys() for one, other in pairs]
        result[f"beam_{beam}"] = {
            "same_top_10": statistics.fmean(
                len(both) / max(1, len(one)) for both, (one, _) in zip(common, pairs, strict=True)
            ),
            "same_first": statistics.fmean(
                list(one)[:1] == list(other)[:1] for one, other in pairs
            ),
            "same_order": statistics.fmean(list(one) == list(other) for one, other in pairs),
            "largest_difference": max(
                (
                    abs(one[text] - other[text])
                    for both, (one, other) in zip(common, pairs, strict=True)
                    for text in both
                ),
                default=0.0,
            ),
        }
    return result


def _scores(suggestions: Sequence[Suggestion]) -> dict[str, float]:
    return {item.text: item.score for item in suggestions}


def length(suggester: HREDSuggester, cases: Cases) -> dict[str, Any]:
    """Likelihood against likelihood per symbol, at two beams, ten suggestions."""
    return {
        f"beam_{beam}_{'per_symbol' if normalised else 'sum'}": found(
            suggester.suggest_many(
                cases.contexts,
                10,
                config=DecodeConfig(specificity=0.0, beam=beam, length_normalised=normalised),
            ),
            cases,
        )
        for beam in (10, 50)
        for normalised in (False, True)
    }


def found(lists: Lists, cases: Cases) -> dict[str, float]:
    """Where the true next query stands, and how long the suggestions are."""
    texts = [_texts(row) for row in lists]
    ranks = [
        row.index(true) + 1 if true in row else 0
        for row, true in zip(texts, cases.following, strict=True)
    ]
    lengths = [len(text.split()) for row in texts for text in row]
    return {
        **{f"hit_at_{n}": statistics.fmean(0 < rank <= n for rank in ranks) for n in (1, 5, 10)},
        "mrr": statistics.fmean(1 / rank if rank else 0.0 for rank in ranks),
        "words": statistics.fmean(lengths),
        "one_word": statistics.fmean(words == 1 for words in lengths),
        "first_word_overlap_f1": statistics.fmean(
            word_overlap(row[0], true) if row else 0.0
            for row, true in zip(texts, cases.following, strict=True)
        ),
    }


def diversity(suggester: HREDSuggester, cases: Cases) -> dict[str, Any]:
    """Five suggestions of beam 20 at several settings; all means are over the lists."""
    result: dict[str, Any] = {}
    likeliest = 0.0
    for setting in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        config = DecodeConfig(specificity=0.0, beam=20, diversity=setting)
        lists = suggester.suggest_many(cases.contexts, 5, config=config)
        several = [row for row in lists if len(row) > 1]
        mean = statistics.fmean(statistics.fmean(item.score for item in row) for row in several)
        likeliest = mean if setting == 0.0 else likeliest
        result[str(setting)] = {
            "different_words": statistics.fmean(len(_words(row)) for row in several),
            "cosine": statistics.fmean(_cosine(suggester, row) for row in several),
            "word_overlap": 1 - statistics.fmean(list_diversity(_texts(r)) for r in several),
            "log_likelihood_lost": likeliest - mean,
            "hit_at_5": found(lists, cases)["hit_at_5"],
        }
    return result


def _texts(row: Sequence[Suggestion]) -> list[str]:
    return [item.text for item in row]


def _words(row: Sequence[Suggestion]) -> set[str]:
    return {word for text in _texts(row) for word in text.split()}


def _cosine(suggester: HREDSuggester, row: Sequence[Suggestion]) -> float:
    """The mean cosine of all pairs of query vectors."""
    vectors = suggester.query_vectors(_texts(row))
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return float((unit @ unit.T)[np.triu_indices(len(row), 1)].mean())
