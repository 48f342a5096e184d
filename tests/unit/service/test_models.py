"""Models under their names: engines, questions, costs, and the process of a model."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from nextquery import load
from nextquery.errors import ArtifactError
from nextquery.inference.decoder import DecodingCancelledError
from nextquery.service.engine import (
    CompleteQuestion,
    ExplainQuestion,
    Facts,
    LocalEngine,
    ScoreQuestion,
    SuggestQuestion,
    WhyQuestion,
    open_engine,
    version_of,
)
from nextquery.service.histories import ReturningVisitors
from nextquery.service.monitoring import Metrics
from nextquery.service.queue import cost
from nextquery.service.served_models import Models
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.service.worker import (
    Batch,
    Cancel,
    ModelFailedError,
    Opening,
    Reply,
    open_model,
)
from nextquery.suggesters.base import SuggestOptions
from nextquery.suggesters.diagnosis import why
from nextquery.suggesters.neural import HREDSuggester, TransformerSuggester

pytestmark = pytest.mark.anyio
SESSION = ("red shoes", "paris", "rome")


@pytest.fixture(params=["hred", "transformer"])
def folder(request: pytest.FixtureRequest, served_models: dict[str, Path]) -> Path:
    """A model folder of each network."""
    return served_models[request.param]


@pytest.fixture
def network(folder: Path) -> LocalEngine:
    engine = open_engine(folder, None)
    assert not engine.immediate
    return engine


def test_an_altered_file_is_refused_before_it_is_used(
    served_models: dict[str, Path], altered: Callable[[Path, str], Path]
) -> None:
    with pytest.raises(ArtifactError, match="altered or truncated"):
        open_engine(altered(served_models["adjacency"], "query_counts.npy"), None)


def test_every_question_reaches_what_the_model_can_do(network: LocalEngine, folder: Path) -> None:
    model = load(folder)
    assert isinstance(model, HREDSuggester | TransformerSuggester)
    options = SuggestOptions(3, diversity=0.9)
    diverse = model.suggest(SESSION, 3, config=model.config.model_copy(update={"diversity": 0.9}))
    [result] = network.answer([SuggestQuestion(SESSION, options)])
    assert [item.text for item in result] == [item.text for item in diverse]
    completed = network.answer([CompleteQuestion(SESSION, "pa", 2)])
    assert completed == [model.complete(SESSION, "pa", 2)]
    candidates = ("paris hotels", "rome")
    scored = network.answer([ScoreQuestion(SESSION, candidates)])
    assert scored == [model.score(SESSION, candidates)]
    assert network.answer([ExplainQuestion(SESSION)]) == [model.explain(SESSION)]
    assert network.answer([WhyQuestion(SESSION, "rome")]) == [why(model, "rome", SESSION)]


def test_what_a_model_cannot_do_is_not_an_answer(served_models: dict[str, Path]) -> None:
    engine = open_engine(served_models["adjacency"], None)
    assert not engine.facts.explains
    with pytest.raises(TypeError, match="adjacency cannot answer a ExplainQuestion"):
        engine.answer([ExplainQuestion(SESSION)])


QUESTION = SuggestQuestion(("red shoes",))


@pytest.fixture
async def models(
    settings: ServiceSettings, served_models: dict[str, Path], tmp_path: Path
) -> AsyncIterator[Models]:
    """A count model, served from a folder of its own."""
    shutil.copytree(served_models["adjacency"], tmp_path / "model")
    chosen = replace(settings, models=(NamedModel("main", tmp_path / "model"),))
    models = Models(chosen, Metrics(), ReturningVisitors(chosen, None))
    models.start()
    await models.reload()
    yield models
    await models.stop()


async def test_nothing_is_kept_of_what_was_asked(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that came sooner the second time would tell visitors what others have asked."""

    model = models.served["main"]
    assert model.engine is not None
    asked: list[object] = []
    answer = type(model.engine).answer

    def counted(self: Any, questions: Any) -> Any:
        asked.extend(questions)
        return answer(self, questions)

    monkeypatch.setattr(type(model.engine), "answer", counted)
    first, second = [await model.submit([QUESTION])[0].answer for _ in range(2)]
    assert first == second
    assert asked == [QUESTION] * 2


async def test_a_count_model_answers_at_once_and_an_expensive_question_waits(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models.served["main"]
    [job] = model.submit([QUESTION])
    assert job.answer.done()
    dear = model.submit([QUESTION] * 20)
    assert not any(item.answer.done() for item in dear)
    assert [await item.answer for item in dear] == [job.answer.result()] * 20

    def broken(self: object, questions: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(model.engine), "answer", broken)
    [failed] = model.submit([QUESTION])
    with pytest.raises(ZeroDivisionError):
        failed.answer.result()


async def test_whatever_is_wrong_with_a_folder_is_refused_and_the_old_model_stays(
    models: Models, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    (folder / "guard" / "settings.json").write_text("[]")
    with pytest.raises(ArtifactError):
        await models.reload()
    assert models.ready
    [job] = models.served["main"].submit([QUESTION])
    assert await job.answer
    shutil.rmtree(folder)
    with pytest.raises(ArtifactError):
        await models.reload()


@pytest.fixture
def ends() -> Iterator[tuple[Any, Any]]:
    ours, theirs = Pipe()
    with ours, theirs:
        yield ours, theirs


def opened(ends: tuple[Any, Any], folder: Path) -> Any:
    """What answers for a model in its process."""
    ours, theirs = ends
    ours.send(Opening(folder, None))
    answer = open_model(theirs)
    assert answer is not None
    return answer


def test_it_opens_answers_and_counts(ends: tuple[Any, Any], served_models: dict[str, Path]) -> None:
    answer = opened(ends, served_models["adjacency"])
    assert ends[0].recv() == Facts(
        "adjacency",
        version_of(served_models["adjacency"]),
        explains=False,
        specificity=0.0,
        judges_usefulness=False,
        min_users=1,
    )
    question = SuggestQuestion(("red shoes",), SuggestOptions(n=1))
    reply = answer(Batch((question,)))
    assert isinstance(reply, Reply)
    assert [[item.text for item in result] for result in reply.answers] == [["red boots"]]
    assert answer(Batch(())) == Reply([], reply.blocklist, reply.blocked)


def test_a_failure_names_source_lines_and_never_quotes_queries(
    ends: tuple[Any, Any], served_models: dict[str, Path]
) -> None:
    answer = opened(ends, served_models["adjacency"])
    broken: Any = ScoreQuestion(("secret words",), None)  # type: ignore[arg-type]
    failure = answer(Batch((broken,)))
    assert isinstance(failure, ModelFailedError)
    kind, *places = failure.args
    assert kind == "TypeError"
    assert places
    assert "secret" not in repr(failure)


@pytest.mark.parametrize("service_is_gone", [False, True])
def test_a_batch_that_nobody_waits_for_is_cancelled(
    ends: tuple[Any, Any], served_models: dict[str, Path], service_is_gone: bool
) -> None:
    ours, _ = ends
    answer = opened(ends, served_models["hred"])
    ours.recv()
    batch = Batch((SuggestQuestion(("red shoes",), SuggestOptions(n=1)),))
    if service_is_gone:
        ours.close()
    else:
        ours.send(Cancel())
    assert isinstance(answer(batch), DecodingCancelledError)
    if not service_is_gone:
        assert isinstance(answer(batch), Reply)
        assert answer(Cancel()) is None  # it came too late


SHORT = ("red shoes", "paris")
LONG = tuple(" ".join(["word"] * 40) for _ in range(100))


def test_ordinary_questions_cost_one() -> None:
    assert cost(SuggestQuestion(SHORT)) == 1.0
    assert cost(SuggestQuestion(SHORT, SuggestOptions(10, diversity=0.9))) == 1.0
    assert cost(CompleteQuestion(SHORT, "pa")) == 1.0
    assert cost(ScoreQuestion(SHORT, ("paris hotels",) * 20)) == 1.0
    assert cost(ExplainQuestion(SHORT)) == 1.0


def test_more_work_costs_more() -> None:
    assert cost(SuggestQuestion(SHORT, SuggestOptions(50))) == 3.0
    assert cost(CompleteQuestion(SHORT, "pa", 30)) == 2.0
    # 100 candidates of 19 words and an end each: 2,000 words.
    assert cost(ScoreQuestion(SHORT, (" ".join(["w"] * 19),) * 100)) == 10.0


def test_text_that_takes_time_to_read_is_charged() -> None:
    assert cost(SuggestQuestion(("東京 ホテル", "京都 の 安い ホテル"))) == 1.0
    # 1,300 characters of two further bytes each.
    assert cost(SuggestQuestion(("中" * 650, "国" * 650))) == pytest.approx(1 + 2400 / 350)
    assert cost(ScoreQuestion((), ("中" * 500,) * 100)) == pytest.approx(1 + 99_800 / 350)
    assert cost(CompleteQuestion(SHORT, "a " * 64, 50)) == 3 + 3


def test_only_what_a_model_reads_of_a_session_is_charged() -> None:
    # 20 queries of 30 words: 600, of which 50 are free.
    assert cost(ExplainQuestion(LONG)) == pytest.approx(1 + 550 / 500)
    assert cost(ExplainQuestion(LONG[:20])) == cost(ExplainQuestion(LONG))
