"""Running the service: sockets, bounded HTTP parsing, workers, graceful shutdown."""

import asyncio
import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import tempfile
import time
import uuid
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from types import FrameType
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from nextquery.errors import ArtifactError, InputError, NextqueryError
from nextquery.service import monitoring
from nextquery.service.answering import Service
from nextquery.service.control import Control
from nextquery.service.monitoring import DIRECTORY_VARIABLE, add_ended
from nextquery.service.settings import BODY_SECONDS, ServiceSettings

BACKLOG = 1024


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, which several processes may share; port 0 takes a free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    except (UnicodeError, OverflowError):
        raise InputError(f"cannot listen on {host}:{port}: no such host name or port") from None


def address(host: str, listener: socket.socket) -> str:
    """Where a browser finds the listener: the host as the operator wrote it, the real port."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


MOST_HEAD_BYTES = 32 * 1024
FIELD_BYTES = 32
"""What a header costs in addition to its text, as in HTTP/2: many short ones take more memory."""
PIECE_BYTES = 1024
"""The parser cannot be stopped within what it is given, so it is given pieces."""
HEAD_SECONDS = BODY_SECONDS
UNREAD_SECONDS = 10.0
"""How long a client may leave an answer unread."""
STOP_SECONDS = 5.0
"""How long a stopping service waits for a client that reads no answer or sends half a request."""

PROBLEMS = {
    400: ("The request is not valid HTTP", "Send a request as RFC 9112 describes it."),
    408: (
        "The request took too long to arrive",
        f"Send headers within {HEAD_SECONDS:.0f} seconds.",
    ),
    431: (
        "The headers are too long",
        f"Request line, headers, chunk sizes and trailers exceed {MOST_HEAD_BYTES} bytes.",
    ),
}


class BoundedProtocol(HttpToolsProtocol):
    """One connection of a client."""

    flow: "_Flow"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unparsed = b""
        self._overhead = 0
        """Bytes of the present request that are not body."""
        self._in_head = True
        self._begun = False
        """Whether a part of a head has arrived."""
        self._ended = False
        """Whether whatever else arrives is ignored."""
        self._refusal = 400
        self._stopping = False
        self._running: RequestResponseCycle | None = None
        """The request that is being answered; uvicorn's `cycle` is the one parsed last."""
        self._head_timer: TimerHandle | None = None
        self._unread_timer: TimerHandle | None = None
        self._stop_timer: TimerHandle | None = None

    # The connection

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Close a connection on which nothing is asked."""
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was scheduled."""
        for timer in (self._head_timer, self._unread_timer, self._stop_timer):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        self._unparsed, self._ended = b"", True
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close, or answer what was asked; who neither sends nor reads is not waited for."""
        self._stopping = True
        if self._running is not None:
            self._running.keep_alive = False
        super().shutdown()
        self._stop_timer = self.loop.call_later(STOP_SECONDS, self._stop_waiting)

    def _stop_waiting(self) -> None:
        if not self._in_head and not self._ended:
            self._refuse(408)
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    # Reading

    def data_received(self, data: bytes) -> None:
        """Parse what arrives, or keep it until the requests before it are answered."""
        self._unset_keepalive_if_required()
        self._unparsed += data
        self._parse()

    def _parse(self) -> None:
        data, start = memoryview(self._unparsed), 0
        while start < len(data) and not (
            self.pipeline or self._ended or self.transport.is_closing()
        ):
            self._feed(data[start : start + PIECE_BYTES])
            start += PIECE_BYTES
        self._unparsed = b"" if self._ended else bytes(data[start:])
        if self._unparsed:
            self.flow.pause_reading()
            self.flow.blocked = True
        if self._ended or self.transport.is_closing():
            return
        if self._begun:
            self._head_timer = self._head_timer or self.loop.call_later(
                HEAD_SECONDS, self._refuse, 408
            )
        elif self._running is None or self._running.response_complete:
            self._expect_request()

    def _feed(self, piece: memoryview) -> None:
        self._overhead += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._ended = True
        except httptools.HttpParserError:
            self._refuse(self._refusal)
        else:
            if self._overhead > MOST_HEAD_BYTES:
                self._refuse(431)

    def _expect_request(self) -> None:
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _refuse(self, status: int) -> None:
        """Answer with a problem and close; if an earlier answer is due, close after that one."""
        self._ended = True
        running = self._running
        earlier = self._in_head or running is not self.cycle
        if running is not None and not running.response_complete and earlier:
            running.keep_alive = False
            return
        if running is not None and not running.response_complete:
            running.disconnected = True  # the app is told that its client left
            running.message_event.set()
        if running is None or running.response_complete or not running.response_started:
            self.transport.write(_problem(status))
        self.transport.close()
        self._expect_reading()

    # What the parser calls

    def on_message_begin(self) -> None:
        """A request line begins."""
        self._begun = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer is counted and dropped."""
        self._overhead += FIELD_BYTES
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Measure the head and start the request."""
        fields = sum(len(name) + len(value) + FIELD_BYTES for name, value in self.headers)
        if len(self.url) + fields > MOST_HEAD_BYTES:
            self._refusal = 431
            raise _HeadTooLongError
        super().on_headers_complete()
        if not self.pipeline:
            self._running = self.cycle
        self._in_head = self._begun = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if self.parser.should_upgrade():
            # Nothing is upgraded here, and what follows is not HTTP, or a body without its length.
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._overhead -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The next head may begin."""
        super().on_message_complete()
        self._in_head, self._overhead = True, 0
        if not self.cycle.keep_alive:
            self._ended = True

    # Answering

    def on_response_complete(self) -> None:
        """Continue with what was pipelined."""
        self.flow.blocked = False
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()
        if self.transport.is_closing():
            self._expect_reading()
        elif self._unparsed:
            self._parse()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        if self._unread_timer is not None and not self.transport.is_closing():
            self._unread_timer.cancel()
            self._unread_timer = None

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that has been idle for too long."""
        super().timeout_keep_alive_handler()
        self._expect_reading()

    def _expect_reading(self) -> None:
        """Close the connection if what was written is not read in time."""
        if self._unread_timer is None:
            seconds = STOP_SECONDS if self._stopping else UNREAD_SECONDS
            self._unread_timer = self.loop.call_later(seconds, self.transport.abort)


class _HeadTooLongError(Exception):
    """Stops the parser."""


class _Flow(FlowControl):
    """Does not resume reading while pipelined bytes wait: uvicorn resumes for every `receive`."""

    blocked = False

    def resume_reading(self) -> None:
        if not self.blocked:
            super().resume_reading()


def _problem(status: int) -> bytes:
    title, detail = PROBLEMS[status]
    problem = {
        "title": title,
        "status": status,
        "detail": detail,
        "request_id": uuid.uuid4().hex[:16],
    }
    message = json.dumps(problem).encode("ascii")
    head = (
        b"content-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    )
    return STATUS_LINE[status] + head % len(message) + message


ACCEPT_GRACE_SECONDS = 0.1
SECONDS_FOR_ACCEPTED = 2.0
"""How long a connection that was accepted last may take to send its request."""
SHUTDOWN_POLL_INTERVAL = 0.1
POLL_INTERVAL = 0.01
MIN_POLLS = 5
SECONDS_TO_FINISH = 30
SECONDS_KEPT_OPEN = 75
"""Longer than balancers keep idle connections: who closes first may cut off a request."""


def run_worker(
    settings: ServiceSettings,
    listener: socket.socket,
    *,
    supervised: bool = False,
    load_first: bool = False,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Serve in this process until told to stop; `on_ready` is called when the models are loaded.

    `supervised`: another process watches over this one and passes signals on. `load_first`: others
    serve meanwhile, so that it does not listen before its models are loaded.
    """
    _set_threads(settings)
    # Imported here: a supervisor needs none of it.
    from nextquery.service.answering import build_service
    from nextquery.service.app import build_app

    monitoring.install()
    service = build_service(settings)
    service.on_ready = on_ready
    config = uvicorn.Config(
        build_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        http=BoundedProtocol,
        # No route is a WebSocket, and uvicorn would log their paths.
        ws="none",
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        backlog=BACKLOG,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
        timeout_keep_alive=SECONDS_KEPT_OPEN,
    )
    server = Server(config, service, supervised=supervised, load_first=load_first)
    server.run(sockets=[listener])
    if service.failure is not None:
        raise service.failure


def _set_threads(settings: ServiceSettings) -> None:
    """Share the cores among the workers, unless the operator says otherwise.

    Only large models use more than one, and at a step's end they sleep; other threads that wait let
    others work, since on a busy machine spinning ones made a list take seconds.
    """
    share = (os.cpu_count() or 1) // settings.workers
    if settings.threads:
        os.environ["OMP_NUM_THREADS"] = str(settings.threads)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, share)))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class Server(uvicorn.Server):
    """uvicorn's server with a drain before its end."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        *,
        supervised: bool = False,
        load_first: bool = False,
    ) -> None:
        super().__init__(config)
        self._service = service
        self._load_first = load_first
        self._parent = os.getppid() if supervised else None
        self._drain_until: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; a worker without supervisor listens to SIGHUP itself."""
        loop = asyncio.get_running_loop()
        if self._parent is None:
            loop.add_signal_handler(signal.SIGHUP, self._service.control.ask_reload)
        else:
            loop.add_signal_handler(signal.SIGHUP, lambda: None)
        if self._load_first:
            await self._load_models()
        if not self.should_exit:
            await super().startup(sockets)

    async def _load_models(self) -> None:
        """Load before anything is listened to; a refusal or a signal to stop ends the worker."""
        loading = asyncio.create_task(self._service.load())
        while not loading.done() and not self._service.draining:
            await asyncio.wait({loading}, timeout=SHUTDOWN_POLL_INTERVAL)
        if not loading.done():
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
        self.should_exit = not self._service.models.ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains; Ctrl-C a second time ends at once."""
        if self._drain_until is None:
            self._service.stop_soon()
            self._drain_until = time.monotonic() + self._service.settings.drain_seconds
        elif sig == signal.SIGINT:
            self.should_exit = self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: is it time to end?"""
        now = time.monotonic()
        if self._drain_until is not None and now >= self._drain_until:
            self.should_exit = True
        if self._service.failure is not None:
            self.should_exit = True
        if self._parent is not None and os.getppid() != self._parent:
            self.should_exit = True  # the supervisor was killed
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, wait for what the last ones have to say, finish."""
        self._service.draining = True
        for listener in sockets or []:
            # The kernel accepts no more connections. Closing at once would cut off clients that
            # have just connected.
            listener.listen(0)
        await self._poll(ACCEPT_GRACE_SECONDS)
        for server in self.servers:
            server.close()
        await self._poll(SECONDS_FOR_ACCEPTED, lambda: not self._silent())
        await super().shutdown(sockets)

    def _silent(self) -> bool:
        """Whether a client is connected that has not asked anything yet."""
        connections = self.server_state.connections
        return any(getattr(connection, "cycle", None) is None for connection in connections)

    async def _poll(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Let the loop accept and read for a while, and for some turns even if it is starved."""
        end, turns = time.monotonic() + seconds, 0
        while not enough() and (time.monotonic() < end or turns < MIN_POLLS):
            await asyncio.sleep(POLL_INTERVAL)
            turns += 1


WORKER_POLL_INTERVAL = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a worker that ended is replaced."""
REFUSED = 2
"""The exit code of a worker that could not load its models."""


def serve(settings: ServiceSettings) -> None:
    """Serve until told to stop."""
    listener = listen(settings.host, settings.port)
    monitoring.install()
    url = f"{address(settings.host, listener)}/"
    monitoring.log_event("serving", url=url, workers=settings.workers)
    if settings.workers == 1:
        run_worker(settings, listener)
        return
    with tempfile.TemporaryDirectory(prefix="nextquery-", ignore_cleanup_errors=True) as metrics:
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
        # A fresh interpreter for each worker: threads and event loops do not survive a fork.
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
            multiprocessing.connection.wait(sentinels, WORKER_POLL_INTERVAL)
            self._served = self._served or any(worker.ready.is_set() for worker in self._workers)
            for worker in [worker for worker in self._workers if not worker.process.is_alive()]:
                self._reap(worker)
            self._replace()

    def _start(self) -> Worker:
        ready = self._processes.Event()
        # A worker that replaces another takes no connection before its models are loaded, if there
        # is somebody else to take them.
        any_ready = any(worker.ready.is_set() for worker in self._workers)
        process = self._processes.Process(
            target=_worker_main,
            args=(self._settings, self._listener, any_ready, ready.set),
            daemon=True,
        )
        process.start()
        return Worker(process, ready)

    def _reap(self, worker: Worker) -> None:
        """Take note of a worker that ended; at the very start bad models end the service."""
        self._workers.remove(worker)
        code = worker.process.exitcode
        with contextlib.suppress(OSError):  # the folder of counts may have been cleaned away
            add_ended(worker.process.pid)
        if self._stopping:
            return
        if code == REFUSED and not self._served:
            self._stop(signal.SIGTERM, None)
            raise ArtifactError("a worker could not load its models; the log above says why")
        self._pause = FIRST_PAUSE if worker.ready.is_set() else min(2 * self._pause, LONGEST_PAUSE)
        monitoring.log_event("worker ended, starting another", exit_code=code, seconds=self._pause)
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


def _worker_main(
    settings: ServiceSettings,
    listener: socket.socket,
    load_first: bool,
    on_ready: Callable[[], None],
) -> None:
    try:
        run_worker(settings, listener, supervised=True, load_first=load_first, on_ready=on_ready)
    except NextqueryError as error:
        monitoring.log_event("worker cannot serve", reason=str(error))
        sys.exit(REFUSED)
