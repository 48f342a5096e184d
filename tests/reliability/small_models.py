"""Small models of every kind, made of a synthetic log, and questions to them."""

from pathlib import Path
from typing import Any

KINDS = ("popularity", "adjacency", "qvmm", "cacb", "shortcuts", "rescue")
FEEDBACK = "feedback"
LOST_TRIAL = "lost_trial"
VISITORS = 600
CONTEXTS: tuple[list[str], ...] = (["google"], ["no such query"], ["a", "google maps"], [])


def make_data(folder: Path, sessions: int = 400, seed: int = 1) -> Path:
    """A prepared log."""
    import nextquery
    from nextquery.logs.synthetic.log import write_log

    write_log(folder / f"log{seed}.tsv", sessions, seed=seed)
    out = folder / f"data{seed}"
    nextquery.prepare(folder / f"log{seed}.tsv", out, spelling=False, min_users=1)
    return out


def make_models(folder: Path, seed: int = 1) -> list[Path]:
    """A data folder, every count model and an HRED that learnt nothing."""
    import nextquery

    data = nextquery.PreparedData(make_data(folder, seed=seed))
    for kind in KINDS:
        nextquery.fit(data, kind, folder / kind)
    write_hred(data, folder / "hred", words=300, embedding=8, query=12, session=16)
    _write_reranked(folder)
    _write_blend(data, folder)
    return [data.path, *(folder / name for name in (*KINDS, "hred", "reranked", "blend"))]


def ask(folder: Path) -> Any:
    """What a folder says to a few questions: a model's lists and scores, a log's facts."""
    import nextquery
    from nextquery.artifacts import open_artifact

    if open_artifact(folder, verify=False).kind == "data":
        from nextquery.logs.inspect import describe

        return repr(describe(nextquery.PreparedData(folder)))
    model: Any = nextquery.load(folder)
    return [
        (
            model.suggest(context, 5),
            model.score(context, ["google", "unheard of"]),
            model.complete(context, "go", 5),
        )
        for context in CONTEXTS
    ]


def write_hred(
    data: Any, target: Path, *, words: int, embedding: int, query: int, session: int
) -> None:
    """An HRED that copies and has learnt nothing, so that it rarely ends a query early."""
    import torch
    from tests.conftest import switch_off_gate

    from nextquery.artifacts import publish
    from nextquery.guard.tables import write_tables
    from nextquery.model.hred import HRED
    from nextquery.model.settings import KIND, ModelConfig
    from nextquery.text.vocabulary import Vocabulary

    torch.manual_seed(0)
    known = data.words()[:words]
    config = ModelConfig(
        vocabulary_size=len(known),
        embedding_size=embedding,
        query_size=query,
        session_size=session,
        copy=True,
    )
    model = HRED(config, Vocabulary(known))
    with publish(target, KIND, model.manifest_entries()) as folder:
        model.write_files(folder)
        write_tables(data, folder)
        switch_off_gate(folder)


def _write_reranked(folder: Path) -> None:
    """Feedback of visitors who like an odd number of letters, and a re-ranker that learnt it."""
    import numpy as np
    from tests.simulated_visitors import (
        Lister,
        SimulatedService,
        SimulatedVisitors,
        simulate,
    )

    import nextquery
    from nextquery.feedback.impressions import read_feedback
    from nextquery.feedback.rerank_training import publish_reranker, train_reranker
    from nextquery.feedback.settings import Bounds, RerankSettings
    from nextquery.service.feedback import FeedbackLog

    model = nextquery.load(folder / "adjacency")
    sessions = [(item.text,) for item in nextquery.load(folder / "popularity").suggest([], 40)]
    visitors = SimulatedVisitors(
        [session for session in sessions if len(model.suggest(session, 5)) > 1],
        lambda session, text: 0.9 if len(text) % 2 else 0.02,
    )
    other = nextquery.load(folder / "qvmm")
    models: dict[str, Lister] = {
        "adjacency": lambda session: model.suggest(session, 5),
        "qvmm": lambda session: other.suggest(session, 5),
    }
    service = SimulatedService(models, "interleave")
    log = FeedbackLog(folder / FEEDBACK)
    for event in simulate(visitors, service, VISITORS, np.random.default_rng(1)):
        log.append(event)
    feedback = read_feedback(folder / FEEDBACK, Bounds(per_origin=0))
    trained = train_reranker(feedback.impressions, "adjacency", RerankSettings(min_taken=50))
    publish_reranker(folder / "adjacency", folder / "reranked", trained)
    _write_lost_trial(folder, visitors)


def _write_lost_trial(folder: Path, visitors: Any) -> None:
    """Feedback of a trial that the re-ranker loses: its half of the visitors is shown nonsense."""
    import numpy as np
    from tests.simulated_visitors import Lister, SimulatedService, simulate

    import nextquery
    from nextquery.artifacts import MANIFEST, sha256
    from nextquery.feedback.compare import VERSION_DIGITS
    from nextquery.records import Suggestion
    from nextquery.service.feedback import FeedbackLog

    model = nextquery.load(folder / "adjacency")
    nonsense = [Suggestion("nothing anybody is looking for", -1.0, "made up")]
    models: dict[str, Lister] = {
        "adjacency": lambda session: model.suggest(session, 5),
        "reranked": lambda session: nonsense,
    }
    version = sha256(folder / "reranked" / MANIFEST)[:VERSION_DIGITS]
    service = SimulatedService(models, "split", {"reranked": version})
    log = FeedbackLog(folder / LOST_TRIAL)
    for event in simulate(visitors, service, VISITORS, np.random.default_rng(2)):
        log.append(event)


def _write_blend(data: Any, folder: Path) -> None:
    from nextquery.suggesters.blend import BlendSettings, make_blend

    members = [folder / "adjacency", folder / "qvmm"]
    make_blend(folder / "hred", members, data, folder / "blend", BlendSettings())
