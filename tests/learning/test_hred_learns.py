"""HRED learns a made-up log: it beats n-gram models, and only real sessions have a context to use.

The log's sessions have a hidden intent that the whole context tells better than the last query.
In the control the same queries are dealt to the sessions at random.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from nextquery.config import load_config
from nextquery.evaluation.probes.ngrams import KneserNey
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.model.settings import RunConfig
from nextquery.text.corpus import SessionLimits, encode_sessions
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.distributed import Processes
from nextquery.training.run import train
from nextquery.training.trainer import Perplexity

pytestmark = pytest.mark.slow

SETTINGS = ("train.epochs=6", "model.vocabulary_size=3000")


@dataclass(frozen=True)
class Learnt:
    """Validation perplexities: of HRED by the number of earlier queries, of n-grams by order."""

    hred: dict[int | None, Perplexity]
    ngrams: dict[int, Perplexity]

    def context_gain(self) -> float:
        """What the whole context brings over the last query alone, in nats per symbol."""
        return self.hred[1].nll - self.hred[None].nll


def learn(folder: Path, *, shuffled: bool) -> Learnt:
    write_log(folder / "log.tsv", 5000, seed=1, shuffled=shuffled)
    prepare([folder / "log.tsv"], folder / "data", PrepareSettings(spelling=False, min_users=1))
    data = PreparedData(folder / "data")
    config = load_config(RunConfig, "tiny", SETTINGS)
    alone = Processes(0, 1, torch.device("cpu"))
    outcome = train(data, folder / "model", config, alone, say=print)
    assert outcome.facts is not None
    vocabulary = Vocabulary(data.words()[: config.model.vocabulary_size])
    limits = SessionLimits(config.train.max_queries, config.train.max_words)
    background, validation = (
        encode_sessions(data.sessions(split), vocabulary, limits, folder / split)
        for split in ("background", "validation")
    )
    ngrams = {order: KneserNey(background, order).measure(validation) for order in (1, 2)}
    return Learnt(dict(outcome.facts.perplexity), ngrams)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    return learn(tmp_path_factory.mktemp("log"), shuffled=False)


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    return learn(tmp_path_factory.mktemp("control"), shuffled=True)


def test_perplexity_is_well_below_ngrams(learnt: Learnt) -> None:
    assert learnt.hred[None].perplexity < 0.1 * learnt.ngrams[1].perplexity
    assert learnt.hred[None].perplexity < 0.8 * learnt.ngrams[2].perplexity


def test_the_whole_context_says_more_than_the_last_query(learnt: Learnt) -> None:
    assert learnt.context_gain() > 0.08
    assert learnt.hred[0].nll > learnt.hred[1].nll > learnt.hred[2].nll


def test_in_the_control_the_context_says_nothing(learnt: Learnt, control: Learnt) -> None:
    assert abs(control.context_gain()) < 0.02
    assert control.context_gain() < 0.2 * learnt.context_gain()
