"""A model continues with new days, and approximately forgets a person: what each brings, measured.

The secret of one person is planted in a log and learnt; the person is forgotten, and training
continues from that model with what is left. Exposure (The Secret Sharer) says how well the secret
ranks among others that nobody typed.
"""

import hashlib
from pathlib import Path

import polars as pl
import pytest
import torch

from nextquery import load
from nextquery.config import changed_config, load_config
from nextquery.evaluation.drift import perplexity
from nextquery.evaluation.planting import (
    PlantedSession,
    chance_bits,
    exposures,
    make_plan,
    write_planted,
)
from nextquery.evaluation.settings import PlantingSettings
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.settings import PrepareSettings
from nextquery.logs.synthetic.log import write_log
from nextquery.model.settings import RunConfig
from nextquery.training.continuing import Continuation
from nextquery.training.distributed import Processes
from nextquery.training.run import train

pytestmark = pytest.mark.slow

ALONE = Processes(0, 1, torch.device("cpu"))
SMALL = ("model.copy=false", "model.decoder_context=all", "model.vocabulary_size=2000")
TYPED = 12
"""How often the person typed the secret."""


@pytest.fixture
def data(tmp_path: Path) -> PreparedData:
    write_log(tmp_path / "log.tsv", 1500, seed=1)
    prepare([tmp_path / "log.tsv"], tmp_path / "data", PrepareSettings(spelling=False, min_users=1))
    return PreparedData(tmp_path / "data")


def test_exposure_falls_when_training_continues_without_the_user(
    data: PreparedData, tmp_path: Path
) -> None:
    settings = PlantingSettings(
        canary_users=(0, 1), canaries=6, fake_users=(1,), contexts=1, decoys=255
    )
    plan = make_plan(data, settings)
    secrets = [canary for canary in plan.canaries if canary.users]
    planted = [
        PlantedSession(f"owner-{number}", (canary.context, canary.text))
        for number, canary in enumerate(secrets)
        for _ in range(TYPED)
    ]
    known = write_planted(data, tmp_path / "known", planted, min_users=1)
    config = load_config(RunConfig, "tiny", (*SMALL, "train.epochs=6"))
    train(known, tmp_path / "knows", config, ALONE, say=print)

    earlier = Continuation(tmp_path / "knows")
    again = changed_config(RunConfig, earlier.settings(), ["train.epochs=2"])
    # Without the owners: the log as it was before they came.
    without = write_planted(data, tmp_path / "without", [], min_users=1)
    train(without, tmp_path / "forgets", again, ALONE, continuation=earlier, say=print)

    bits = {
        name: {
            exposure.users: exposure.mean_bits
            for exposure in exposures(load(tmp_path / name), plan.canaries, plan.decoys)
        }
        for name in ("knows", "forgets")
    }
    assert bits["knows"][1] > chance_bits(256) + 3, "or there is nothing to forget"
    assert bits["forgets"][1] < bits["knows"][1] - 1, "it fades, and is not gone"


def test_training_on_new_days_is_short_and_predicts_them_better(tmp_path: Path) -> None:
    """The last three weeks are new; an epoch is their sessions and as many older ones.

    The model continues in its own folder, as a nightly job has it.
    """
    write_log(tmp_path / "log.tsv", 2000, seed=1)
    rows = pl.read_csv(tmp_path / "log.tsv", separator="\t", quote_char=None)
    earlier_days = rows.filter(rows["QueryTime"] < "2006-05-10")
    earlier_days.write_csv(tmp_path / "old.tsv", separator="\t", quote_style="never")
    settings = PrepareSettings(spelling=False, min_users=1)
    for name in ("old", "log"):
        prepare([tmp_path / f"{name}.tsv"], tmp_path / f"{name}-data", settings)
    old, new = (PreparedData(tmp_path / f"{name}-data") for name in ("old", "log"))
    config = load_config(RunConfig, "tiny", (*SMALL, "train.epochs=4"))
    model = tmp_path / "model"
    first = train(old, model, config, ALONE, say=print)
    sessions = [session.queries for session in new.sessions("validation")][:300]
    before = perplexity(load(model), sessions)
    earlier = Continuation(model)
    again = changed_config(RunConfig, earlier.settings(), [])
    second = train(new, model, again, ALONE, continuation=earlier, say=print)
    assert first.facts is not None
    assert second.facts is not None
    assert second.facts.words < 0.8 * first.facts.words / first.facts.epochs
    assert perplexity(load(model), sessions) < before
    card = (model / "README.md").read_text(encoding="utf-8")
    assert "Continued from an earlier model" in card


def test_new_words_are_learnt_as_well_as_by_training_from_scratch(tmp_path: Path) -> None:
    """From one day on a sixth of the words are others that nobody typed before.

    When each began as a copy of the unknown word, validation perplexity was 37.0 where a model that
    was trained anew has 25.3.
    """
    write_log(tmp_path / "log.tsv", 3000, seed=1)
    rows = pl.read_csv(tmp_path / "log.tsv", separator="\t", quote_char=None, infer_schema=False)
    rows = rows.sort("QueryTime")
    times = [rows["QueryTime"][int(len(rows) * share)] for share in (0.86, 0.862, 0.9, 0.902, 0.99)]
    renamed = pl.col("Query").map_elements(_with_new_words, return_dtype=pl.String)
    later = pl.col("QueryTime") >= times[0]
    rows = rows.with_columns(Query=pl.when(later).then(renamed).otherwise(pl.col("Query")))
    rows.write_csv(tmp_path / "log.tsv", separator="\t", quote_style="never")
    folders = []
    for name, cuts in (("old", times[:3]), ("new", times[2:])):
        split_at = ",".join(time.replace(" ", "T") for time in cuts)
        settings = PrepareSettings(spelling=False, min_users=2, split_at=split_at)
        prepare([tmp_path / "log.tsv"], tmp_path / name, settings)
        folders.append(PreparedData(tmp_path / name))
    config = load_config(RunConfig, "tiny", ("model.copy=false", "train.epochs=4"))
    train(folders[0], tmp_path / "model", config, ALONE, say=print)
    earlier = Continuation(tmp_path / "model")
    again = changed_config(RunConfig, earlier.settings(), [])
    continued = train(folders[1], tmp_path / "model", again, ALONE, continuation=earlier, say=print)
    anew = train(folders[1], tmp_path / "anew", config, ALONE, say=print)
    assert continued.facts is not None
    assert anew.facts is not None
    perplexity = continued.facts.perplexity[None].perplexity
    expected = anew.facts.perplexity[None].perplexity
    assert perplexity < 1.1 * expected, f"{perplexity:.1f} continued, {expected:.1f} anew"


def _with_new_words(query: str) -> str:
    return " ".join(map(_new_word, query.split(" ")))


def _new_word(word: str) -> str:
    """Another word for one of six, always the same and like no other."""
    digest = hashlib.sha1(word.encode()).digest()
    if digest[0] >= 40 or len(word) < 4 or not word.isalpha():
        return word
    return "".join(chr(ord("a") + byte % 26) for byte in digest[1:8])
