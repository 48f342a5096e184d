"""Several workers on one socket: started, watched, restarted, stopped together.

The socket stays open while a single worker is replaced, so that no connection is refused. Knows
processes; knows nothing of HTTP.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from types import FrameType

from prometheus_client import multiprocess

from nextquery.errors import ArtifactError, NextqueryError
from nextquery.service.operation import logging
from nextquery.service.operation.control import Control
from nextquery.service.operation.listening import address, listen
from nextquery.service.operation.prometheus import DIRECTORY_VARIABLE
from nextquery.service.operation.server import WorkerPlace, run_worker
from nextquery.service.settings import ServiceSettings

SECONDS_BETWEEN_LOOKS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a worker that ended is replaced."""
REFUSED = 2
"""The exit code of a worker that could not load its models."""


def serve(settings: ServiceSettings) -> None:
    """Serve until told to stop."""
    listener = listen(settings.host, settings.port)
    logging.install()
    url = f"{address(settings.host, listener)}/"
    logging.log_event("serving", url=url, workers=settings.workers)
    if settings.workers == 1:
        run_worker(settings, listener, WorkerPlace())
        return
    with tempfile.TemporaryDirectory(prefix="nextquery-") as metrics:
        os.environ[DIRECTORY_VARIABLE] = metrics
        Supervisor(settings, listener).run()


@dataclass(eq=False)
class Worker:
    """One process, and whether it has loaded its models."""

    process: BaseProcess
    ready: Event


class Supervisor:
    """Keeps the workers of a service alive."""

    def __init__(self, settings: ServiceSettings, listener: socket.socket) -> None:
        self._settings = settings
        self._listener = listener
        # A fresh interpreter for each: threads and event loops do not survive a fork.
        self._processes = multiprocessing.get_context("spawn")
        self._workers: list[Worker] = []
        self._served = False
        self._pause = FIRST_PAUSE
        self._start_at: float | None = None
        self._stopping = False

    def run(self) -> None:
        """Start the workers and watch them until all have ended."""
        control = Control(self._settings.control, self._settings.kill_switch)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, lambda number, frame: control.ask_reload())
        self._workers = [self._start() for _ in range(self._settings.workers)]
        while self._workers or not self._stopping:
            sentinels = [worker.process.sentinel for worker in self._workers]
            multiprocessing.connection.wait(sentinels, SECONDS_BETWEEN_LOOKS)
            self._served = self._served or any(worker.ready.is_set() for worker in self._workers)
            for worker in [each for each in self._workers if not each.process.is_alive()]:
                self._reap(worker)
            self._replace()

    def _start(self) -> Worker:
        ready = self._processes.Event()
        # A worker that replaces another takes no connection before its models are loaded, if there
        # is somebody else to take them.
        others = any(worker.ready.is_set() for worker in self._workers)
        place = WorkerPlace(supervised=True, load_first=others, on_ready=ready.set)
        process = self._processes.Process(
            target=_worker_main, args=(self._settings, self._listener, place), daemon=True
        )
        process.start()
        return Worker(process, ready)

    def _reap(self, worker: Worker) -> None:
        """Take note of a worker that ended; at the very start bad models end the service."""
        self._workers.remove(worker)
        code = worker.process.exitcode
        with contextlib.suppress(OSError):  # the folder of counts may have been cleaned away
            multiprocess.mark_process_dead(worker.process.pid)  # type: ignore[no-untyped-call]
        if self._stopping:
            return
        if code == REFUSED and not self._served:
            self._stop(signal.SIGTERM, None)
            raise ArtifactError("a worker could not load its models; the log above says why")
        self._pause = FIRST_PAUSE if worker.ready.is_set() else min(2 * self._pause, LONGEST_PAUSE)
        logging.log_event("worker ended, starting another", exit_code=code, seconds=self._pause)
        self._start_at = time.monotonic() + self._pause

    def _replace(self) -> None:
        """Start what is missing, after a pause that grows while workers end before they serve."""
        if self._stopping or self._start_at is None or time.monotonic() < self._start_at:
            return
        self._start_at = None
        while len(self._workers) < self._settings.workers:
            self._workers.append(self._start())

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        for worker in self._workers:
            if worker.process.is_alive() and worker.process.pid is not None:
                os.kill(worker.process.pid, signal.SIGTERM)


def _worker_main(settings: ServiceSettings, listener: socket.socket, place: WorkerPlace) -> None:
    try:
        run_worker(settings, listener, place)
    except NextqueryError as error:
        logging.log_event("worker cannot serve", reason=str(error))
        sys.exit(REFUSED)
