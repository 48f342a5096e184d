"""Load on a service, from a process of its own: `python load.py PLAN.json` prints what it saw.

A plan has `url`, `words` (to make queries of), `seconds` or `requests`, perhaps `options` (further
fields of every request), and either `clients` (each asks again as soon as it is answered) or `rate`
(requests a second, whatever the answers do). SIGTERM ends it before its time. One line says that an
answer came, one that a request failed, each when it is so for the first time; the last what was
seen.
Speaks plain HTTP/1.1 over kept connections, so that it costs little compared with the service.
"""

import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

MOST_CONNECTIONS = 512
ANSWERED, FAILED = "answered", "failed"


class Plan:
    """What to send, and what came back."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.host, port = plan["url"].removeprefix("http://").split(":")
        self.port = int(port)
        self.path = plan.get("path", "/v1/suggest")
        self.words: list[str] = plan["words"]
        self.sessions = bool(plan.get("sessions"))
        self.options: dict[str, Any] = plan.get("options", {})
        self.random = random.Random(plan.get("seed", 0))
        self.sent = 0
        self.most: int = plan.get("requests", 10**12)
        self.end: float = time.perf_counter() + plan.get("seconds", 10**9)
        self.statuses: Counter[str] = Counter()
        self.accepted: list[float] = []
        self.later: list[float] = []
        """Of `accepted` those sent after the first second: what lasts, not what begins."""
        self.begin = time.perf_counter()
        self.failed = False
        self.idle: list[Connection] = []

    @property
    def over(self) -> bool:
        """Whether all was sent or the time is up."""
        return self.sent >= self.most or time.perf_counter() >= self.end

    def body(self) -> bytes:
        """The next request: the third query of a session that nobody had before."""
        self.sent += 1
        queries = [" ".join(self.random.choices(self.words, k=2)) for _ in range(3)]
        asked: dict[str, Any] = {"query": queries[2], "context": queries[:2], "n": 5}
        asked |= self.options
        if self.sessions:
            asked["session_id"] = f"load-{self.sent}-{self.random.randrange(10**9)}"
        return json.dumps(asked).encode()

    async def ask(self, body: bytes) -> None:
        """Send one request on a free connection and note the answer."""
        connection = self.idle.pop() if self.idle else Connection(self.host, self.port)
        begin = time.perf_counter()
        try:
            status, keep = await connection.post(self.path, body)
        except ConnectionRefusedError:
            self.fail("not accepted")
            return
        except (OSError, EOFError, ValueError) as error:
            self.fail(f"lost: {type(error).__name__}")
            connection.close()
            return
        self.statuses[str(status)] += 1
        if status == 200:
            self.accepted.append(time.perf_counter() - begin)
            if begin > self.begin + 1.0:
                self.later.append(self.accepted[-1])
            if len(self.accepted) == 1:
                print(ANSWERED, flush=True)
        if keep:
            self.idle.append(connection)
        else:
            connection.close()

    def fail(self, how: str) -> None:
        """Note a request without an answer."""
        self.statuses[how] += 1
        if not self.failed:
            print(FAILED, flush=True)
        self.failed = True


class Connection:
    """A kept HTTP/1.1 connection."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, bool]:
        """The status of the answer, and whether the connection may be used again."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        await reader.readexactly(int(headers["content-length"]))
        return int(lines[0].split()[1]), headers.get("connection") != "close"

    def close(self) -> None:
        """Let go of the connection, if there is one."""
        if self._streams is not None:
            self._streams[1].close()


async def closed(plan: Plan, clients: int) -> None:
    """Clients that wait for each answer."""

    async def client() -> None:
        while not plan.over and not plan.statuses["not accepted"]:
            await plan.ask(plan.body())

    await asyncio.gather(*[client() for _ in range(clients)])


async def opened(plan: Plan, rate: float) -> None:
    """Requests that come at their own pace."""
    tasks: set[asyncio.Task[None]] = set()
    begin = time.perf_counter()
    while not plan.over:
        due = begin + plan.sent / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if len(tasks) >= MOST_CONNECTIONS:
            plan.sent += 1
            plan.statuses["not sent"] += 1
            continue
        tasks.add(task := asyncio.create_task(plan.ask(plan.body())))
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


def quantile(values: list[float], share: float) -> float:
    """In milliseconds, 0 without values."""
    ordered = sorted(values)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def run(work: Coroutine[Any, Any, None]) -> None:
    """With uvloop where it is installed: what the load costs, the service does not have."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    plan = Plan(job)
    signal.signal(signal.SIGTERM, lambda *_: setattr(plan, "end", 0.0))
    begin = time.perf_counter()
    work = closed(plan, job["clients"]) if "clients" in job else opened(plan, job["rate"])
    run(work)
    seconds = time.perf_counter() - begin
    print(
        json.dumps(
            {
                "statuses": dict(plan.statuses),
                "seconds": seconds,
                "answered_per_s": len(plan.accepted) / seconds,
                "p50_ms": quantile(plan.accepted, 0.50),
                "p95_ms": quantile(plan.accepted, 0.95),
                "p99_ms": quantile(plan.accepted, 0.99),
                "later_p99_ms": quantile(plan.later, 0.99),
            }
        )
    )


if __name__ == "__main__":
    main()
