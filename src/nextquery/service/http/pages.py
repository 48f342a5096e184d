"""Health, metrics, the demonstration page and the API's documentation, all from local files."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from nextquery.service.http import schemas
from nextquery.service.http.access import Here
from nextquery.service.operation.prometheus import CONTENT_TYPE

STATIC = Path(__file__).parent / "static"
_PACKAGED_WIDGET = Path(__file__).parent / "widget"
_CHECKOUT_WIDGET = Path(__file__).parents[4] / "clients" / "js" / "src"
WIDGET = _PACKAGED_WIDGET if _PACKAGED_WIDGET.is_dir() else _CHECKOUT_WIDGET
"""The search-box widget: inside the installed package, or beside it in a checkout."""
router = APIRouter()
_NOT_READY: dict[int | str, dict[str, Any]] = {503: {"model": schemas.Health}}


@router.get("/healthz", tags=["operation"])
async def healthz() -> schemas.Health:
    """Whether the process lives."""
    return schemas.Health(status="alive")


@router.get("/readyz", tags=["operation"], responses=_NOT_READY, response_model=schemas.Health)
async def readyz(service: Here) -> Response:
    """Whether requests should be sent here: models loaded and answering, not stopping."""
    if service.draining:
        return JSONResponse({"status": "stopping"}, 503)
    if not service.models.ready:
        return JSONResponse({"status": "loading"}, 503)
    if silent := service.models.silent:
        return JSONResponse({"status": f"no answer from: {', '.join(silent)}"}, 503)
    return JSONResponse({"status": "ready"})


@router.get("/metrics", tags=["operation"], response_class=Response,
            responses={200: {"content": {"text/plain": {}}}})  # fmt: skip
async def metrics(service: Here) -> Response:
    """Counts and times for Prometheus."""
    service.models.refresh()
    service.metrics.sessions.set(service.sessions.count())
    return Response(service.metrics.render(), headers={"Content-Type": CONTENT_TYPE})


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    """The demonstration page."""
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


@router.get("/docs", include_in_schema=False)
async def docs() -> FileResponse:
    """The API's documentation."""
    return FileResponse(STATIC / "docs.html", headers={"Cache-Control": "no-cache"})


def mount_files(app: FastAPI) -> None:
    """Serve the page's own files, the widget's and those of Swagger UI."""
    with as_file(files("fastapi_swagger") / "resources") as folder:
        app.mount("/static/swagger", StaticFiles(directory=folder))
    app.mount("/static", StaticFiles(directory=STATIC))
    app.mount("/widget", StaticFiles(directory=WIDGET))
