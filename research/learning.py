"""What makes plain HRED learn a hidden intent: one domain of the made-up log, many configurations.

Every configuration sees the same sessions once, with three seeds. The measure is
`evaluation/probes/hidden_intent.py`: nats of the true outcome among its domain's 16. Chance is
2.77; who is told the intent stands at about 1.5. `python -m research learning WORK` keeps
every run; docs/results/experiments.md has the results.
"""

import math
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from nextquery.evaluation.probes.hidden_intent import intent_result
from nextquery.guard.guard import Guard
from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_network import HREDNetwork
from nextquery.inference.predictor import Predictor
from nextquery.logs.synthetic.log import make_log
from nextquery.model.hred import HRED, initialise_as_authors
from nextquery.model.likelihood import SessionLikelihood
from nextquery.model.settings import ModelConfig, TrainConfig
from nextquery.records import ScoredQuery, Session
from nextquery.text.corpus import EncodedSessions, SessionLimits, encode_sessions
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.checkpoint import CheckpointFolder
from nextquery.training.distributed import Processes
from nextquery.training.feed import Feed, Order
from nextquery.training.trainer import Trainer, measure

ALONE = Processes(0, 1, torch.device("cpu"))
KEPT_ASIDE = 1500
SESSIONS = 300_000
"""Of the whole log, all domains; domain 0 alone is learnt from."""
BASIS = {
    "model.embedding_size": 64,
    "model.query_size": 128,
    "model.session_size": 192,
    "train.batch_words": 1024,
    "train.rate": 0.003,
}
ALL = {"model.decoder_context": "all"}
RMSPROP = {"train.optimiser": "rmsprop", "train.rate": 0.001}
CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "`first`, Adam .003": {},
    "`first`, RMSProp .001": RMSPROP,
    "`first`, RMSProp of Graves, .01": {"train.optimiser": "graves", "train.rate": 0.01},
    "`first`, Adam .01, 400 steps of warm-up": {"train.rate": 0.01, "train.warmup_steps": 400},
    "`first`, authors' initialisation": {"train.initialisation": "authors"},
    "`first`, GRU and output biases": {"model.gru_biases": True, "model.output_bias": True},
    "`first`, loss per session": {"train.loss_per": "session"},
    "`first`, batches not sorted by length": {"train.sort_window": 1},
    "`output`, Adam .003": {"model.decoder_context": "output"},
    "`all`, Adam .003": ALL,
    "`all`, RMSProp .001": {**ALL, **RMSPROP},
    "`first`, 128/256/384": {
        "model.embedding_size": 128,
        "model.query_size": 256,
        "model.session_size": 384,
    },
    "`first`, RMSProp .002": {**RMSPROP, "train.rate": 0.002},
    "`first`, RMSProp of Graves, .001": {"train.optimiser": "graves", "train.rate": 0.001},
    "`first`, Adam .002, batches of 256": {"train.batch_words": 256, "train.rate": 0.002},
}
"""What each configuration has unlike `BASIS`, by its name on the page."""
SEEDS = (1, 2, 3)


class Scores:
    """A model in memory as a system that scores."""

    def __init__(self, model: HRED) -> None:
        network = HREDModel(HREDNetwork(model.config, model.vocabulary, model.arrays()))
        self._predictor = Predictor(network, Guard())

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The log-likelihood of each candidate."""
        return self.score_many([context], [candidates])[0]

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The same for many contexts."""
        states = self._predictor.encoder.encode_many(contexts)
        return self._predictor.score_many(states, candidates)


class Log:
    """The sessions of domain 0, some of them kept aside to measure on."""

    def __init__(self, folder: Path, sessions: int) -> None:
        made = [each for each in make_log(sessions, seed=1).sessions(0) if len(each.queries) > 1]
        self.aside: list[Session] = made[:KEPT_ASIDE]
        background = made[KEPT_ASIDE:]
        words = Counter(w for each in background for query in each.queries for w in query.split())
        self.vocabulary = Vocabulary(word for word, count in words.most_common() if count >= 10)
        self.background = self._encoded(background, folder / "background")
        self.validation = self._encoded(self.aside, folder / "validation")

    def facts(self) -> dict[str, int]:
        """How many sessions teach and how many are kept aside, and the words of the vocabulary."""
        counts = {"sessions": len(self.background), "aside": len(self.aside)}
        return {**counts, "words": len(self.vocabulary)}

    def _encoded(self, sessions: Sequence[Session], folder: Path) -> EncodedSessions:
        return encode_sessions(sessions, self.vocabulary, SessionLimits(20, 30), folder)


def learn(log: Log, name: str, seed: int) -> dict[str, Any]:
    """Train for one epoch; then perplexity and the probe."""
    keys = {**BASIS, **CONFIGURATIONS[name], "train.seed": seed, "train.epochs": 1}
    train = TrainConfig.model_validate(_section(keys, "train"))
    torch.manual_seed(seed)
    model = HRED(ModelConfig.model_validate(_section(keys, "model")), log.vocabulary)
    if train.initialisation == "authors":
        initialise_as_authors(model)
    likelihood = SessionLikelihood(model, train.chunk)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as checkpoints:
        steps = _train(log, likelihood, train, Path(checkpoints))
    measured = _measured(log, likelihood)
    return {"steps": steps, **measured, "processor_seconds": time.process_time() - started}


def _train(log: Log, likelihood: SessionLikelihood, train: TrainConfig, checkpoints: Path) -> int:
    """Train to the end of the epoch; the number of its steps."""
    feed = Feed(log.background, Order(train.seed, train.batch_words, train.sort_window))
    folder = CheckpointFolder(checkpoints, {})
    trainer = Trainer(likelihood, train, feed, log.validation, folder, ALONE)
    trainer.run(None)
    return trainer.position.step


def _measured(log: Log, likelihood: SessionLikelihood) -> dict[str, Any]:
    perplexity = math.exp(measure(likelihood, log.validation, ALONE).nll)
    assert isinstance(likelihood.model, HRED)
    found = intent_result(Scores(likelihood.model), log.aside)
    assert found is not None
    return {
        "perplexity": perplexity,
        "outcomes": found.cases,
        "nats": found.nats,
        "intent": found.intent,
        "by_distance": {str(each.distance): each.nats for each in found.by_distance},
    }


def _section(keys: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The keys of one section without its name."""
    return {
        key.removeprefix(f"{name}."): value
        for key, value in keys.items()
        if key.startswith(f"{name}.")
    }
