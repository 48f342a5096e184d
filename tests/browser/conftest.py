"""A real Chromium, and pages that fail a test on any error or request to elsewhere."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import RunningService, service_starter

from nextquery.guard.guard import Guard
from nextquery.suggesters.returning import FEATURES, Regression, Returning, ReturningSettings

from .widget_page import Shop

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # 5 s are too few on a busy machine
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def service(
    browser: Any, served_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """The service that pages are from: it takes feedback and finds every earlier query likely."""
    folder = tmp_path_factory.mktemp("shop")
    weights = np.zeros(len(FEATURES) + 1)
    Returning(Regression(weights), 0.4, ReturningSettings(), Guard()).save(folder / "returning")
    options = ("--returning", folder / "returning", "--feedback", folder / "feedback")
    with service_starter() as start:
        yield start(served_models["adjacency"], *options, "--budget-ms", "20000")


@pytest.fixture
def page(browser: Any, service: Any) -> Iterator[Any]:
    context = browser.new_context()
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on(
        "console", lambda said: complaints.append(said.text) if said.type == "error" else None
    )
    opened.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((service.url, "data:"))
            else complaints.append(f"asked {request.url}")
        ),
    )
    yield opened
    context.close()
    assert complaints == []


@pytest.fixture
def shop(page: Any, service: Any) -> Shop:
    """Errors, refusals by the policy and requests to elsewhere fail the test (see `page`)."""
    return Shop(page, service.url)
