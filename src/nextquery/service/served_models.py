"""The models of a service: loading, swapping, blocklist reloads."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

from nextquery.errors import ArtifactError, NextqueryError
from nextquery.service import monitoring
from nextquery.service.engine import BlocklistState, Engine, Question, open_engine, version_of
from nextquery.service.histories import ReturningVisitors
from nextquery.service.monitoring import Metrics
from nextquery.service.queue import Batcher, Job, cost
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.service.worker import IsolatedEngine, ModelFailedError, Opening
from nextquery.suggesters.loading import model_kind, require_check
from nextquery.suggesters.rewriting import read_synonyms

RELOAD_POLL_INTERVAL = 0.25
MOST_AT_ONCE = 4.0
"""Questions of at most this cost, together, are answered in the event loop where a model only looks
things up: waking a thread would take longer than the answer."""
SECONDS_WHEN_STOPPING = 4.0
"""How long a stopping service waits for a model that does not answer."""


class ServedModel:
    """A model under its name: asked through a queue, replaced without losing a request."""

    def __init__(self, named: NamedModel, settings: ServiceSettings, metrics: Metrics) -> None:
        self.name = named.name
        self._path = named.path
        self._settings = settings
        arms = (settings.models[0].name, *settings.interleave, *(a.name for a in settings.split))
        self._needs_check = settings.require_check and named.name in arms
        self._metrics = metrics
        # To look a metric up by its labels takes longer than to count with it.
        self._batch_sizes = metrics.batch.labels(named.name)
        self._batch_seconds = metrics.model_seconds.labels(named.name)
        self._counted: dict[str, int] = {}
        self._blocklist_state = BlocklistState()
        self._longest_batch = settings.batch_seconds
        self.engine: Engine | None = None
        self.batcher = Batcher(
            self._run,
            settings.queue_size,
            settings.batch_size,
            # A queue that does not become shorter for a quarter of a request's time is not a burst.
            burst_seconds=settings.budget_ms / 4000,
            name=f"model-{named.name}",
        )
        self.batcher.on_batch = self._on_batch
        self.batcher.on_idle = self._check
        self.batcher.on_unwanted = self._cancel

    async def open(self) -> Engine:
        """Open, check and warm up what is in the folder now, in another thread.

        Whatever is wrong with the folder is an `ArtifactError`, so that it is refused and said.
        """
        settings, served = self._settings, self.engine
        files = self._path, settings.blocklist, settings.hits
        engine: Engine | None = None
        try:
            if self._needs_check and served and served.facts.version != version_of(self._path):
                require_check(self._path)
            if model_kind(self._path).neural:
                engine = isolated = IsolatedEngine(Opening(*files))
                await asyncio.to_thread(isolated.start, low_priority=served is not None)
            else:
                engine = await asyncio.to_thread(open_engine, *files)
            synonyms = read_synonyms(settings.synonyms) if settings.synonyms else None
            await asyncio.to_thread(engine.open_rewriter, synonyms)
            opened, engine = engine, None
            return opened
        except NextqueryError:
            raise
        except ModelFailedError as error:
            raise ArtifactError(f"{self._path}: cannot be used ({' '.join(error.args)})") from error
        except Exception as error:
            name = type(error).__name__
            raise ArtifactError(f"{self._path}: cannot be used ({name})") from error
        finally:
            if engine is not None:  # refused, or not needed any more
                engine.close()

    @property
    def version(self) -> str:
        """The version that answers; empty while it is being loaded."""
        return "" if self.engine is None else self.engine.facts.version

    def use(self, engine: Engine) -> None:
        """Answer with `engine` from the next batch on; the old one ends with its last batch."""
        if self.engine is not None:
            # A process takes its time to end, which nobody who asks the new one should wait for.
            ending = threading.Thread(target=self.engine.close, name=f"end-{self.name}")
            self.batcher.do_between(ending.start)
        self.engine = engine
        self._counted = {}
        self._blocklist_state = engine.blocklist

    def submit(self, questions: Sequence[Question[Any]]) -> list[Job]:
        """Queue questions of one group for the model."""
        costs = [cost(question) for question in questions]
        engine = self.engine
        if engine is not None and engine.immediate and sum(costs) <= MOST_AT_ONCE:
            return self._answered(engine, questions)
        return self.batcher.submit(questions[0].group, questions, costs)

    def _answered(self, engine: Engine, questions: Sequence[Question[Any]]) -> list[Job]:
        """Questions that are answered here and now, as if they had waited."""
        loop, begin = asyncio.get_running_loop(), time.perf_counter()
        jobs = [Job(question.group, question, loop.create_future()) for question in questions]
        try:
            answers = engine.answer(questions)
        except Exception as error:
            for job in jobs:
                job.answer.set_exception(error)
                job.answer.exception()  # read: whoever asked may be gone
            return jobs
        for job, answer in zip(jobs, answers, strict=True):
            job.answer.set_result(answer)
        self._on_batch(len(jobs), time.perf_counter() - begin)
        return jobs

    @property
    def available(self) -> bool:
        """Whether it can be expected to answer."""
        return self.engine is not None and self.engine.available

    def watch(self) -> None:
        """End a batch that takes too long; the model is then started again."""
        if self.engine is not None and self.engine.silent_for > self._longest_batch:
            monitoring.log_event("the model takes too long and is ended", model=self.name)
            self.engine.kill()

    def shorten_timeout(self) -> None:
        """The service stops: wait less long for a model that does not answer."""
        self._longest_batch = min(self._longest_batch, SECONDS_WHEN_STOPPING)

    async def stop(self) -> None:
        """Stop answering and close the model."""
        await self.batcher.stop()
        if self.engine is not None:
            await asyncio.to_thread(self.engine.close)

    def refresh(self) -> None:
        """Notice a changed blocklist, and pass on what the engine has counted."""
        if self.engine is None:
            return
        self._report_blocklist(self.engine)
        for reason, count in self.engine.blocked().items():
            self._metrics.blocked.labels(self.name, reason).inc(self._more(reason, count))
        restarts = self._metrics.model_restarts.labels(self.name)
        restarts.inc(self._more("restarts", self.engine.restarts))
        self._metrics.queue.labels(self.name).set(len(self.batcher))

    def _report_blocklist(self, engine: Engine) -> None:
        """Log a changed blocklist, or what is wrong with its file."""
        new, old = engine.blocklist, self._blocklist_state
        if new == old:
            return
        if new.problem and new.problem != old.problem:
            fields = {"model": self.name, "reason": new.problem}
            monitoring.log_event("blocklist refused, the old one stays", **fields)
        elif new.generation != old.generation:
            monitoring.log_event("blocklist loaded", model=self.name)
        self._blocklist_state = new

    def _more(self, name: str, count: int) -> int:
        """How much a count of the engine has grown since it was last asked."""
        before = self._counted.get(name, 0)
        self._counted[name] = count
        return count - before if count >= before else count  # a restarted model begins at 0

    def _run(self, questions: Sequence[Question[Any]]) -> Sequence[Any]:
        assert self.engine is not None, "asked before the model was loaded"
        return self.engine.answer(questions)

    def _check(self) -> None:
        if self.engine is not None:
            self.engine.check()

    def _cancel(self) -> None:
        if self.engine is not None:
            self.engine.cancel()

    def _on_batch(self, size: int, seconds: float) -> None:
        self._batch_sizes.observe(size)
        self._batch_seconds.observe(seconds)


class Models:
    """All models of a service; the first is the default, the fallback answers for it."""

    def __init__(
        self, settings: ServiceSettings, metrics: Metrics, visitors: ReturningVisitors
    ) -> None:
        self._metrics = metrics
        self._visitors = visitors
        self.served = {
            named.name: ServedModel(named, settings, metrics) for named in settings.models
        }
        self.default = settings.models[0].name
        self.fallback, self.rescue = (
            None if path is None else ServedModel(NamedModel(name, path), settings, metrics)
            for name, path in (("fallback", settings.fallback), ("rescue", settings.rescue))
        )
        self._settings = settings
        self._reloading = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    @property
    def all(self) -> list[ServedModel]:
        """Every model, the fallback and the rescue last."""
        extra = (self.fallback, self.rescue)
        return [*self.served.values(), *(model for model in extra if model is not None)]

    @property
    def ready(self) -> bool:
        """Whether every model is loaded."""
        return all(model.engine is not None for model in self.all)

    @property
    def silent(self) -> list[str]:
        """The loaded models that do not answer now."""
        return [model.name for model in self.all if model.engine and not model.available]

    @property
    def missed(self) -> list[str]:
        """The models that do not answer now and for which nothing else answers a visitor.

        Visitors who name no model get their lists from the default, from one arm of a split, or
        from whichever interleaved model answers; the fallback answers for all of these. A model
        in the shadow, the rescue, and one that only requests name are not among them.
        """
        if self.fallback is not None and self.fallback.available:
            return []
        if interleaved := self._settings.interleave:
            silent = [name for name in interleaved if not self.served[name].available]
            return silent if len(silent) == len(interleaved) else []
        names = dict.fromkeys((self.default, *(share.name for share in self._settings.split)))
        return [name for name in names if not self.served[name].available]

    async def reload(self) -> dict[str, str]:
        """Load every folder again next to what is in use; a refused one leaves all as it was."""
        async with self._reloading:
            engines: list[tuple[ServedModel, Engine]] = []
            try:
                for model in self.all:
                    engines.append((model, await model.open()))
                returning = await asyncio.to_thread(self._visitors.open_model)
            except BaseException:
                self._metrics.reloads.labels("refused").inc()
                for _, opened in engines:
                    await asyncio.to_thread(opened.close)
                raise
            for model, engine in engines:
                model.use(engine)
            self._visitors.use(returning)
            self._metrics.reloads.labels("loaded").inc()
            return {model.name: engine.facts.version for model, engine in engines}

    def start(self) -> None:
        """Begin answering."""
        for model in self.all:
            model.batcher.start()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    def shorten_timeout(self) -> None:
        """The service stops: wait less long for models that do not answer."""
        for model in self.all:
            model.shorten_timeout()

    async def stop(self) -> None:
        """Stop answering."""
        self.shorten_timeout()
        await asyncio.gather(*(model.stop() for model in self.all))
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            for model in self.all:
                model.watch()
            await asyncio.sleep(RELOAD_POLL_INTERVAL)

    def refresh(self) -> None:
        """Take changed blocklists and publish gauges."""
        for model in self.all:
            model.refresh()
