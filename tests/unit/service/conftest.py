import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nextquery.feedback.events import FeedbackEvent, parse_line
from nextquery.service.answering import build_service
from nextquery.service.app import build_app
from nextquery.service.queue import QueueFullError
from nextquery.service.served_models import ServedModel
from nextquery.service.settings import NamedModel, ServiceSettings


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of tests and fixtures that are coroutines."""
    return "asyncio"


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    return ServiceSettings(models=(NamedModel("main", tmp_path / "none"),), control=tmp_path)


@pytest.fixture
def altered(tmp_path: Path) -> Callable[[Path, str], Path]:
    """A copy of a model folder in which one file has a byte too many."""

    def copy(folder: Path, name: str) -> Path:
        broken = tmp_path / "broken"
        shutil.copytree(folder, broken)
        with (broken / name).open("ab") as stream:
            stream.write(b"x")
        return broken

    return copy


Open = Callable[..., TestClient]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "waited for two minutes"
        time.sleep(0.01)


def recorded(folder: Path) -> list[FeedbackEvent]:
    """What a reader finds in feedback files; erased lines are none, and no other is broken."""
    texts = [path.read_bytes() for path in sorted(folder.glob("*.ndjson"))]
    lines = [line for text in texts for line in text.splitlines()]
    return [event for line in lines if (event := parse_line(line)) is not None]


def refuse(model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model refuse every question, as one does whose queue is full."""

    def full(*_: object) -> None:
        raise QueueFullError(3.0)

    monkeypatch.setattr(model.engine, "immediate", False)
    monkeypatch.setattr(model.batcher, "submit", full)


@contextmanager
def serving(settings: ServiceSettings) -> Iterator[TestClient]:
    """The whole service in this process, once its models are loaded."""
    service = build_service(settings)
    with TestClient(build_app(service)) as client:
        client.app_state["service"] = service
        wait_until(lambda: client.get("/readyz").status_code == 200)
        yield client


@pytest.fixture
def serve() -> Iterator[Callable[[ServiceSettings], TestClient]]:
    with ExitStack() as stack:
        yield lambda settings: stack.enter_context(serving(settings))


def two_models(served_models: dict[str, Path]) -> tuple[NamedModel, ...]:
    names = (("adj", "adjacency"), ("pop", "popularity"))
    return tuple(NamedModel(name, served_models[kind]) for name, kind in names)


@pytest.fixture
def open_client(
    serve: Callable[[ServiceSettings], TestClient], served_models: dict[str, Path], tmp_path: Path
) -> Open:
    """Opens the service over two count models, with the settings given."""
    models = two_models(served_models)
    return lambda **settings: serve(ServiceSettings(models, tmp_path, **settings))


@pytest.fixture(scope="module")
def client(
    served_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    """One service with default settings, for requests that change nothing."""
    settings = ServiceSettings(two_models(served_models), tmp_path_factory.mktemp("service"))
    with serving(settings) as shared:
        yield shared
