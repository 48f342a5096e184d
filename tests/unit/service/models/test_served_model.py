"""Models under their names, over real model folders."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import ArtifactError
from nextquery.service.engine import SuggestQuestion
from nextquery.service.monitoring import Metrics
from nextquery.service.served_models import Models
from nextquery.service.settings import NamedModel, ServiceSettings

QUESTION = SuggestQuestion(("red shoes",))


def with_models(
    settings: ServiceSettings, folder: Path, scenario: Callable[[Models], Awaitable[None]]
) -> None:
    async def main() -> None:
        chosen = replace(settings, models=(NamedModel("main", folder),))
        models = Models(chosen, Metrics())
        models.start()
        try:
            await models.reload()
            await scenario(models)
        finally:
            await models.stop()

    asyncio.run(main())


def test_nothing_is_kept_of_what_was_asked(
    settings: ServiceSettings, served_models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that came sooner the second time would tell visitors what others have asked."""

    async def scenario(models: Models) -> None:
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

    with_models(settings, served_models["adjacency"], scenario)


def test_a_model_that_looks_things_up_answers_at_once_and_a_dear_question_waits(
    settings: ServiceSettings, served_models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(models: Models) -> None:
        model = models.served["main"]
        [job] = model.submit([QUESTION])
        assert job.answer.done()
        dear = model.submit([QUESTION] * 20)
        assert not any(each.answer.done() for each in dear)
        assert [await each.answer for each in dear] == [job.answer.result()] * 20

        def broken(self: object, questions: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(type(model.engine), "answer", broken)
        [failed] = model.submit([QUESTION])
        with pytest.raises(ZeroDivisionError):
            failed.answer.result()

    with_models(settings, served_models["adjacency"], scenario)


def test_whatever_is_wrong_with_a_folder_is_refused_and_the_old_model_stays(
    settings: ServiceSettings, served_models: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(served_models["adjacency"], folder)

    async def scenario(models: Models) -> None:
        (folder / "guard" / "settings.json").write_text("[]")
        with pytest.raises(ArtifactError):
            await models.reload()
        assert models.ready
        [job] = models.served["main"].submit([QUESTION])
        assert await job.answer
        shutil.rmtree(folder)
        with pytest.raises(ArtifactError):
            await models.reload()

    with_models(settings, folder, scenario)
