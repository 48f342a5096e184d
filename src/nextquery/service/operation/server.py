"""The process that serves: signals, a graceful end, a model that cannot be loaded.

On SIGTERM or Ctrl-C readiness goes first; for `drain_seconds` requests are still taken, and every
answer asks its client to leave; then nothing new is taken and what was accepted is finished.
SIGHUP loads the models again. Knows nothing of routes.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import uvicorn

from nextquery.service.operation import logging
from nextquery.service.operation.http_protocol import BoundedHeadProtocol
from nextquery.service.operation.listening import BACKLOG
from nextquery.service.service import Service
from nextquery.service.settings import ServiceSettings

ACCEPT_GRACE_SECONDS = 0.1
SECONDS_FOR_ACCEPTED = 2.0
"""How long a connection that was accepted last may take to send its request."""
SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_OF_A_TURN = 0.01
FEWEST_TURNS = 5
SECONDS_TO_FINISH = 30
SECONDS_KEPT_OPEN = 75
"""Longer than balancers keep idle connections: who closes first may cut off a request."""


@dataclass(frozen=True)
class WorkerPlace:
    """What a worker is to its service."""

    supervised: bool = False
    """Whether another process watches over it and passes signals on."""
    load_first: bool = False
    """Whether others serve meanwhile, so that it need not listen before its models are loaded."""
    on_ready: Callable[[], None] | None = None
    """Called when the models are loaded."""


def run_worker(settings: ServiceSettings, listener: socket.socket, place: WorkerPlace) -> None:
    """Serve in this process until told to stop."""
    _set_threads(settings)
    # Imported here: a supervisor needs none of it.
    from nextquery.service.app import build_app
    from nextquery.service.service import build_service

    logging.install()
    service = build_service(settings)
    service.on_ready = place.on_ready
    config = uvicorn.Config(
        build_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        http=BoundedHeadProtocol,
        # No route is a WebSocket, and uvicorn would log their paths.
        ws="none",
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        backlog=BACKLOG,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
        timeout_keep_alive=SECONDS_KEPT_OPEN,
    )
    server = Server(config, service, place)
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

    def __init__(self, config: uvicorn.Config, service: Service, place: WorkerPlace) -> None:
        super().__init__(config)
        self._service = service
        self._load_first = place.load_first
        self._parent = os.getppid() if place.supervised else None
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
            await asyncio.wait({loading}, timeout=SECONDS_BETWEEN_LOOKS)
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
            # The kernel lets nobody else in; closing at once would cut off those at the door.
            listener.listen(0)
        await self._look_around(ACCEPT_GRACE_SECONDS)
        for server in self.servers:
            server.close()
        await self._look_around(SECONDS_FOR_ACCEPTED, lambda: not self._silent())
        await super().shutdown(sockets)

    def _silent(self) -> bool:
        """Whether a client is connected that has not asked anything yet."""
        connections = self.server_state.connections
        return any(getattr(connection, "cycle", None) is None for connection in connections)

    async def _look_around(
        self, seconds: float, enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Let the loop accept and read for a while, and for some turns even if it is starved."""
        end, turns = time.monotonic() + seconds, 0
        while not enough() and (time.monotonic() < end or turns < FEWEST_TURNS):
            await asyncio.sleep(SECONDS_OF_A_TURN)
            turns += 1
