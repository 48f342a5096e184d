"""The web page of a blind user study, with limits on every request."""

import asyncio
import secrets
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Cookie, Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextquery.study.pool import JudgementStore, read_pool

MAX_BODY_BYTES = 4096
"""A judgement has about 40."""
BODY_SECONDS = 10.0

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # the token is in the address
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class RequestLimits:
    """Refuses bodies that are too large (413) or too slow (408); adds the headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        app = self._app
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read_body(receive)
        except TimeoutError:
            app = _refused(408, "The judgement took too long to arrive.")
        else:
            if body is None:
                app = _refused(413, f"At most {MAX_BODY_BYTES} bytes are read.")
            else:
                receive = _replay(body, receive)
        await app(scope, receive, send_with_headers)


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body; None if it is too large. What is left of a client that left is its part."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            return None
        more = message.get("more_body", False)
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replayed() -> Message:
        message = next(parts, None)
        return await receive() if message is None else message

    return replayed


def _refused(status: int, detail: str) -> ASGIApp:
    return JSONResponse({"detail": detail}, status, {"Connection": "close"})


_STATIC = Path(__file__).parent / "static"
_WRONG = "This link is not valid. Ask the owner of the study for your link."
_REUSED = (
    "This link is already in use in another browser. Continue there, or ask the owner of the study "
    "to release it."
)
_NO_COOKIE = "This browser keeps no cookies for this page. Allow them, then open your link again."

Browser = Annotated[str | None, Cookie()]


class JudgementIn(BaseModel):
    """One judgement as the page sends it; null takes the current one back."""

    model_config = ConfigDict(extra="forbid", strict=True)

    item: int
    value: Literal["useful", "somewhat useful", "not useful"] | None


def create_study_app(study: Path) -> FastAPI:
    """The application for one study folder."""
    pool, store = read_pool(study), JudgementStore(study)
    items = {item.id for topic in pool.topics for item in topic.items}
    app = FastAPI(title="nextquery study", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(RequestLimits)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")

    def reader(token: str, browser: Browser = None) -> int:
        """The assessor of a link that is open in this browser."""
        assessor = store.assessor(token)
        if assessor is None:
            raise HTTPException(403, _WRONG)
        if not store.admits(assessor, browser):
            raise HTTPException(403, _REUSED)
        return assessor

    def judge_of(assessor: Annotated[int, Depends(reader)], browser: Browser = None) -> int:
        """The assessor of a link that now belongs to this browser."""
        if browser is None:
            raise HTTPException(403, _NO_COOKIE)
        if not store.claim(assessor, browser):
            raise HTTPException(403, _REUSED)
        return assessor

    @app.get("/a/{token}")
    def page(request: Request, token: str, browser: Browser = None) -> Response:
        assessor = store.assessor(token)
        if assessor is None:
            return _refusal(_WRONG)
        if not store.admits(assessor, browser):
            return _refusal(_REUSED)
        return _page(request, token, browser or secrets.token_urlsafe(24))

    @app.get("/a/{token}/state")
    def state(assessor: Annotated[int, Depends(reader)]) -> dict[str, Any]:
        judged = {judgement.item: judgement.value for judgement in store.current(assessor)}
        return {
            "topics": [
                {
                    "query": pooled.topic.query,
                    "description": pooled.topic.description,
                    "context": pooled.topic.context,
                    "suggestions": [
                        {"item": item.id, "text": item.text, "value": judged.get(item.id)}
                        for item in pooled.items
                    ],
                }
                for pooled in pool.shuffled(assessor)
            ]
        }

    @app.post("/a/{token}/judgements")
    def judge(
        judgement: JudgementIn, assessor: Annotated[int, Depends(judge_of)]
    ) -> dict[str, Any]:
        if judgement.item not in items:
            raise HTTPException(422, "The study has no such suggestion.")
        store.judge(assessor, judgement.item, judgement.value)
        return {"item": judgement.item, "value": judgement.value}

    return app


def _page(request: Request, token: str, browser: str) -> Response:
    answer = FileResponse(_STATIC / "index.html")
    answer.set_cookie(
        "browser",
        browser,
        max_age=365 * 86400,
        path=f"/a/{token}",
        httponly=True,
        secure=request.url.scheme == "https",
        # Lax, not strict: a click in a mail program is a navigation from elsewhere and must bring
        # the cookie. A judgement posted from elsewhere still comes without it and is refused.
        samesite="lax",
    )
    return answer


def _refusal(message: str) -> Response:
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>No access</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/static/study.css">'
        f'<main class="refusal"><h1>No access</h1><p>{message}</p></main></html>'
    )
    return HTMLResponse(page, 403)


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    """Say which field is wrong; what was sent is not repeated, since it may not be JSON or text."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    fields = [part for part in first["loc"] if part in JudgementIn.model_fields]
    field = fields[0] if fields else "The judgement"
    return JSONResponse({"detail": f"{field}: not valid ({first['type']})."}, 422)
