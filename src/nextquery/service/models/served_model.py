"""The models that the service has in its hands: loading beside the old one, swapping, asking.

A served model is a name, a folder, a queue with its thread, and the engine of the moment. Knows
nothing of HTTP.
"""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from nextquery.errors import BlocklistError, NextqueryError
from nextquery.records import Suggestion
from nextquery.service.lru_cache import LruCache
from nextquery.service.models.batching import Batcher, Job
from nextquery.service.models.engine import Engine
from nextquery.service.models.isolation import open_apart
from nextquery.service.models.questions import Question, SuggestQuestion
from nextquery.service.operation import logging
from nextquery.service.operation.metrics import Metrics
from nextquery.service.settings import NamedModel, ServiceSettings


class ServedModel:
    """A model under its name: asked through a queue, replaced without losing a request."""

    def __init__(self, named: NamedModel, settings: ServiceSettings, metrics: Metrics) -> None:
        self.name = named.name
        self._path = named.path
        self._blocklist = settings.blocklist
        self._cache_size = settings.cache_size
        self._metrics = metrics
        self._answers: LruCache[SuggestQuestion, list[Suggestion]] = LruCache(settings.cache_size)
        self._counted: dict[str, int] = {}
        self.engine: Engine | None = None
        self.batcher = Batcher(
            self._run,
            settings.queue_size,
            settings.batch_size,
            # A queue that does not become shorter for a quarter of a request's time is no burst.
            burst_seconds=settings.budget_ms / 4000,
            name=f"model-{named.name}",
        )
        self.batcher.on_batch = self._on_batch

    async def open(self) -> Engine:
        """Open, check and warm up what is in the folder now, in another thread."""
        where = self._path, self._blocklist, self._cache_size
        return await asyncio.to_thread(open_apart, *where, low_priority=self.engine is not None)

    def use(self, engine: Engine) -> None:
        """Answer with `engine` from the next batch on; the old one ends with its last batch."""
        if self.engine is not None:
            # A process takes its time to end, which nobody who asks the new one should wait for.
            ending = threading.Thread(target=self.engine.close, name=f"end-{self.name}")
            self.batcher.do_between(ending.start)
        self.engine = engine
        self._answers.clear()
        self._counted = {}

    def remembered(self, question: SuggestQuestion) -> list[Suggestion] | None:
        """The list given to the same question by the same model before, if it is still known."""
        found = self._answers.get(question)
        result = "hit" if found is not None else "miss"
        self._metrics.cache.labels("answers", result).inc()
        return found

    def submit(self, questions: Sequence[Question[Any]]) -> list[Job]:
        """Queue questions of one group for the model."""
        jobs = self.batcher.submit(questions[0].group, questions)
        for job in jobs:
            if isinstance(job.question, SuggestQuestion):
                job.answer.add_done_callback(self._remember(self.engine, job.question))
        return jobs

    def refresh(self) -> None:
        """Take a changed blocklist, and pass on what the guard held back."""
        if self.engine is None:
            return
        try:
            if self.engine.guard.reload():
                self._answers.clear()
                logging.log_event("blocklist loaded", model=self.name)
        except BlocklistError as error:
            logging.log_failure("blocklist refused, the old one stays", error, model=self.name)
        for reason, count in self.engine.blocked().items():
            self._metrics.blocked.labels(self.name, reason).inc(self._more(reason, count))
        states = self._metrics.cache.labels
        states("states", "hit").inc(self._more("states found", self.engine.states_found))
        states("states", "miss").inc(self._more("states missed", self.engine.states_missed))
        self._metrics.queue.labels(self.name).set(len(self.batcher))

    def _more(self, what: str, count: int) -> int:
        """How much a count of the engine has grown since it was last asked."""
        before = self._counted.get(what, 0)
        self._counted[what] = count
        return count - before if count >= before else count  # a restarted model begins at 0

    def _remember(self, engine: Engine | None, question: SuggestQuestion) -> Any:
        blocklist = engine.guard.blocklist if engine else None

        def store(answer: asyncio.Future[Any]) -> None:
            current = self.engine
            if current is None or answer.cancelled() or answer.exception() is not None:
                return
            # A list made by another model or under another blocklist must not outlive it.
            if current is engine and current.guard.blocklist is blocklist:
                self._answers.put(question, answer.result())

        return store

    def _run(self, questions: Sequence[Question[Any]]) -> Sequence[Any]:
        assert self.engine is not None, "asked before the model was loaded"
        return self.engine.answer(questions)

    def _on_batch(self, size: int, seconds: float) -> None:
        self._metrics.batch.labels(self.name).observe(size)
        self._metrics.model_seconds.labels(self.name).observe(seconds)


class Models:
    """All models of a service; the first is the default, the fallback answers for it."""

    def __init__(self, settings: ServiceSettings, metrics: Metrics) -> None:
        self._metrics = metrics
        self.served = {
            named.name: ServedModel(named, settings, metrics) for named in settings.models
        }
        self.default = settings.models[0].name
        self.fallback: ServedModel | None = None
        if settings.fallback is not None:
            named = NamedModel("fallback", settings.fallback)
            self.fallback = ServedModel(named, settings, metrics)
        self._reloading = asyncio.Lock()

    @property
    def all(self) -> list[ServedModel]:
        """Every model, the fallback last."""
        return [*self.served.values(), *([self.fallback] if self.fallback else [])]

    @property
    def ready(self) -> bool:
        """Whether every model is loaded."""
        return all(model.engine is not None for model in self.all)

    async def reload(self) -> dict[str, str]:
        """Load every folder again beside what is in use; a refused one leaves all as it was."""
        async with self._reloading:
            engines: list[tuple[ServedModel, Engine]] = []
            try:
                for model in self.all:
                    engines.append((model, await model.open()))
            except NextqueryError:
                self._metrics.reloads.labels("refused").inc()
                for _, opened in engines:
                    opened.close()
                raise
            for model, engine in engines:
                model.use(engine)
            self._metrics.reloads.labels("loaded").inc()
            return {model.name: engine.version for model, engine in engines}

    def start(self) -> None:
        """Begin answering."""
        for model in self.all:
            model.batcher.start()

    async def stop(self) -> None:
        """Stop answering."""
        for model in self.all:
            await model.batcher.stop()
            if model.engine is not None:
                model.engine.close()

    def refresh(self) -> None:
        """Take changed blocklists and publish gauges."""
        for model in self.all:
            model.refresh()
