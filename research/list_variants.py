"""What improves HRED's lists for visitors whom the counts do not know.

`python -m research list-variants WORK LOG...` trains variants of HRED on the AOL logs, each for the
CPU time and with the seeds of the study `aol` of `research.transformer`, whose models it shares if
WORK is the same, and decodes with other settings. Held-out users are dealt to two halves: variants
are chosen by the first; the second is looked at once. It writes docs/results/list_variants.json.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.evaluation.comparison import paired_t_test_by_user
from nextquery.evaluation.lists import LISTED, SHOWN, ListMaker, suggest_all, text_quality
from nextquery.guard.guard import Guard
from nextquery.inference.context import ContextState
from nextquery.inference.gate import most_frequent
from nextquery.inference.hred_network import HREDMemory
from nextquery.inference.near_duplicates import content_words
from nextquery.logs.data_folder import PreparedData
from nextquery.records import Session, Suggestion
from nextquery.suggesters.neural import NeuralSuggester
from research.aol import MINILM
from research.commands import make, save
from research.first_lists import Configured
from research.transformer import STUDIES, loaded, prepared, rounded, trained

STUDY = STUDIES["aol"]
BASE = "small"
HALVES = ("chosen by", "looked at once")
REQUESTS = 800
"""Of each half."""
NGRAMS = "model.character_ngrams=20000"
TRAINED = ("character n-grams", "encoder vectors", "both", "sessions of every length")
DECODED: Mapping[str, Mapping[str, Any]] = {
    "beam 60": {"beam": 60},
    "prior not subtracted": {"specificity": 0.0},
    "half the prior subtracted": {"specificity": 0.15},
    "twice the prior subtracted": {"specificity": 0.6},
    "ranked by lift": {"specificity": 1.0},
    "known queries only": {"known": "only"},
    "known queries no better": {"known": "free"},
    "diverse": {"diversity": 0.3},
}
"""Other settings of decoding, with the models of `BASE`."""
CONTENT = "content words copied only"
FUSED = "two seeds together"
FUSION = 60.0
"""Constant of reciprocal rank fusion."""


@dataclass(frozen=True)
class Fused:
    """The lists of two models, merged by reciprocal rank."""

    models: tuple[ListMaker, ListMaker]

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """The best of both lists."""
        values: dict[str, float] = {}
        suggestions: dict[str, Suggestion] = {}
        for model in self.models:
            for rank, suggestion in enumerate(model.suggest(context, n), start=1):
                suggestions[suggestion.text] = suggestion
                values[suggestion.text] = values.get(suggestion.text, 0.0) + 1 / (FUSION + rank)
        best = sorted(values, key=lambda text: (-values[text], text))
        return [suggestions[text] for text in best[:n]]


@dataclass(frozen=True)
class ContentCopied:
    """A model that copies no stop words."""

    model: NeuralSuggester

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        """The model's list."""
        return self.suggest_many([context], n)[0]

    def suggest_many(self, contexts: Sequence[Sequence[str]], n: int = 5) -> list[list[Suggestion]]:
        """The model's lists."""
        states = self.model.encode_many(contexts)
        return self.model.suggest_after([without_stop_words(state) for state in states], n)


def without_stop_words(state: ContextState[HREDMemory]) -> ContextState[HREDMemory]:
    """The same session; only content words can be copied."""
    words = iter(state.copied_words)
    copied: list[str] = []
    vectors = []
    for of_query in state.memory.word_states:
        query = [next(words) for _ in of_query]
        content = set(content_words(" ".join(query)))
        vectors.append(of_query[[word in content for word in query]])
        copied += [word for word in query if word in content]
    memory = replace(state.memory, word_states=tuple(vectors))
    return replace(state, memory=memory, copied_words=tuple(copied))


class EveryLength(PreparedData):
    """A data folder whose background sessions include those of one query."""

    def _rows(self, split: str) -> Iterator[tuple[int, str, str]]:
        if split != "background":
            yield from super()._rows(split)
            return
        rows = self.search_rows(split).select("session", "user", "query")
        yield from rows.collect(engine="streaming").iter_rows()


def study(work: Path, logs: Sequence[Path]) -> None:
    """Train the variants, measure the lists of all and write the result."""
    folder = work / "aol"
    data, _ = prepared(folder, STUDY, logs)
    vectors = folder / "words.safetensors"
    make(vectors, ["vectors", str(data), "--out", str(vectors), "--words", "20000", *MINILM])
    options = {
        BASE: (),
        TRAINED[0]: (NGRAMS,),
        TRAINED[1]: (f"train.word_vectors={vectors}",),
        TRAINED[2]: (NGRAMS, f"train.word_vectors={vectors}"),
        TRAINED[3]: (),
    }
    folders = {name: [folder / f"{_stem(name)}-{seed}" for seed in STUDY.seeds] for name in options}
    views = {name: PreparedData(data) for name in options} | {TRAINED[3]: EveryLength(data)}
    training = {
        name: [trained(STUDY, views[name], out, options[name]) for out in folders[name]]
        for name in options
    }
    sessions = halves(PreparedData(data))
    document = {
        "date": date.today().isoformat(),
        "config": STUDY.config,
        "cpu_seconds": STUDY.seconds,
        "perplexity": {
            name: [run["perplexity"]["all"] for run in runs] for name, runs in training.items()
        },
        "steps": {name: [run["steps"] for run in runs] for name, runs in training.items()},
        "lists": {half: measured(folders, sessions[half]) for half in HALVES},
    }
    save("list_variants", rounded(document))


def _stem(name: str) -> str:
    """The folder of a variant without its seed."""
    return "hred" if name == BASE else f"hred-{name.replace(' ', '_').replace('-', '_')}"


def halves(data: PreparedData) -> dict[str, list[Session]]:
    """Sessions of held-out users, dealt to two halves by user, some of each drawn at random."""
    dealt: dict[str, list[Session]] = {half: [] for half in HALVES}
    for session in data.sessions("unseen_users"):
        digest = hashlib.sha256(session.user.encode()).digest()
        dealt[HALVES[digest[0] % 2]].append(session)
    draw = np.random.default_rng(5).permutation
    return {
        half: [sessions[index] for index in np.sort(draw(len(sessions))[:REQUESTS])]
        for half, sessions in dealt.items()
    }


def measured(folders: Mapping[str, Sequence[Path]], sessions: Sequence[Session]) -> dict[str, Any]:
    """Hits and text quality of every variant: means over seeds, compared with `BASE` by user."""
    contexts = [session.queries[:-1] for session in sessions]
    wanted = [session.queries[-1] for session in sessions]
    users = [session.user for session in sessions]
    models = {name: [loaded(folder) for folder in of_seeds] for name, of_seeds in folders.items()}
    base = models[BASE]
    makers: dict[str, Sequence[ListMaker]] = {**models}
    for name, settings in DECODED.items():
        makers[name] = [
            Configured(model, model.config.model_copy(update=settings)) for model in base
        ]
    makers[CONTENT] = [ContentCopied(model) for model in base]
    makers[FUSED] = [Fused((model, base[index - 1])) for index, model in enumerate(base)]
    guard = Guard.open(folders[BASE][0])
    frequent = most_frequent(guard.tables)
    informational = np.array([query not in frequent for query in wanted], dtype=np.bool_)
    rows: dict[str, Any] = {}
    reciprocal = {}
    for name, of_seeds in makers.items():
        lists = [suggest_all(maker, contexts, iter) for maker in of_seeds]
        by_seed = np.array([_reciprocal(texts, wanted) for texts in lists])
        reciprocal[name] = values = by_seed.mean(axis=0)
        quality = [asdict(text_quality(texts, contexts, guard)) for texts in lists]
        difference = values - reciprocal[BASE]
        rows[name] = {
            "mrr": float(values.mean()),
            "mrr_by_seed": by_seed.mean(axis=1).tolist(),
            "mrr_informational": float(values[informational].mean()),
            "hit_5": float((by_seed >= 1 / SHOWN).mean()),
            "difference": float(difference.mean()),
            "p": _p(values, reciprocal[BASE], users),
            "p_informational": _p(
                values[informational],
                reciprocal[BASE][informational],
                [user for user, some in zip(users, informational, strict=True) if some],
            ),
            **{key: float(np.mean([share[key] for share in quality])) for key in quality[0]},
        }
        print(name, rows[name], file=sys.stderr, flush=True)
    return {"requests": len(sessions), "users": len(set(users)), "systems": rows}


def _p(one: Any, other: Any, users: Sequence[str]) -> float:
    """By user; 1 where nothing differs."""
    return paired_t_test_by_user(one, other, users) if (one != other).any() else 1.0


def _reciprocal(lists: Sequence[Sequence[str]], wanted: Sequence[str]) -> list[float]:
    """The reciprocal rank of each wanted query, 0 where the list does not have it."""
    return [
        1 / (texts.index(query) + 1) if query in texts[:LISTED] else 0.0
        for texts, query in zip(lists, wanted, strict=True)
    ]
