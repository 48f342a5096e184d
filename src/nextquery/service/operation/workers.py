"""Several workers on one socket: started, watched, restarted, stopped together.

The socket stays open while a single worker is replaced, so that no connection is refused. Knows
processes; knows nothing of HTTP.
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import tempfile
import time
from multiprocessing.process import BaseProcess
from types import FrameType

from prometheus_client import multiprocess

from nextquery.errors import ArtifactError, NextqueryError
from nextquery.service.operation import logging
from nextquery.service.operation.control import Control
from nextquery.service.operation.listening import address, listen
from nextquery.service.operation.metrics import DIRECTORY_VARIABLE
from nextquery.service.operation.server import run_worker
from nextquery.service.settings import ServiceSettings

SECONDS_BETWEEN_STARTS = 1.0
REFUSED = 2
"""The exit code of a worker that could not load its models: starting it again would not help."""


def serve(settings: ServiceSettings) -> None:
    """Serve until told to stop."""
    listener = listen(settings.host, settings.port)
    logging.install()
    url = f"{address(settings.host, listener)}/"
    logging.log_event("serving", url=url, workers=settings.workers)
    if settings.workers == 1:
        run_worker(settings, listener, supervised=False)
        return
    with tempfile.TemporaryDirectory(prefix="nextquery-") as metrics:
        os.environ[DIRECTORY_VARIABLE] = metrics
        Supervisor(settings, listener).run()


class Supervisor:
    """Keeps the workers of a service alive."""

    def __init__(self, settings: ServiceSettings, listener: socket.socket) -> None:
        self._settings = settings
        self._listener = listener
        # A fresh interpreter for each: threads and event loops do not survive a fork.
        self._processes = multiprocessing.get_context("spawn")
        self._workers: list[BaseProcess] = []
        self._stopping = False

    def run(self) -> None:
        """Start the workers and watch them until all have ended."""
        control = Control(self._settings.control, self._settings.kill_switch)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, lambda number, frame: control.ask_reload())
        self._workers = [self._start() for _ in range(self._settings.workers)]
        while self._workers:
            multiprocessing.connection.wait([worker.sentinel for worker in self._workers], 1.0)
            for worker in [worker for worker in self._workers if not worker.is_alive()]:
                self._reap(worker)

    def _start(self) -> BaseProcess:
        worker = self._processes.Process(
            target=_worker_main, args=(self._settings, self._listener), daemon=True
        )
        worker.start()
        return worker

    def _reap(self, worker: BaseProcess) -> None:
        self._workers.remove(worker)
        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
        if self._stopping:
            return
        if worker.exitcode == REFUSED:
            self._stop(signal.SIGTERM, None)
            raise ArtifactError("a worker could not load its models; the log above says why")
        logging.log_event("worker ended, starting another", exit_code=worker.exitcode)
        time.sleep(SECONDS_BETWEEN_STARTS)
        self._workers.append(self._start())

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        for worker in self._workers:
            if worker.is_alive() and worker.pid is not None:
                os.kill(worker.pid, signal.SIGTERM)


def _worker_main(settings: ServiceSettings, listener: socket.socket) -> None:
    try:
        run_worker(settings, listener, supervised=True)
    except NextqueryError as error:
        logging.log_event("worker cannot serve", reason=str(error))
        sys.exit(REFUSED)
