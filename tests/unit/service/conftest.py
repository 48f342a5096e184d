import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nextquery.service.answering import build_service
from nextquery.service.app import build_app
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


@pytest.fixture
def open_client(served_models: dict[str, Path], tmp_path: Path) -> Iterator[Open]:
    """Opens the whole service in this process, over two count models, with the settings given."""
    with ExitStack() as stack:

        def open_service(**settings: Any) -> TestClient:
            return stack.enter_context(ready_client(served_models, tmp_path, **settings))

        yield open_service


@pytest.fixture(scope="session")
def client(
    served_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    """One service with default settings, for requests that change nothing."""
    with ready_client(served_models, tmp_path_factory.mktemp("service")) as shared:
        yield shared


@contextmanager
def ready_client(
    served_models: dict[str, Path], control: Path, **settings: Any
) -> Iterator[TestClient]:
    names = (("adj", "adjacency"), ("pop", "popularity"))
    models = tuple(NamedModel(name, served_models[kind]) for name, kind in names)
    service = build_service(ServiceSettings(models, control, **settings))
    with TestClient(build_app(service)) as opened:
        end = time.monotonic() + 120
        while opened.get("/readyz").status_code != 200:
            assert time.monotonic() < end, "the models were not loaded"
            time.sleep(0.01)
        yield opened
