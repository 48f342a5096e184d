"""The page of a blind user study. Knows the pool and the judgements; never opens the key.

    GET  /a/{token}              the page
    GET  /a/{token}/state        this assessor's topics in their order, with what is judged so far
    POST /a/{token}/judgements   one judgement; answered only when it is on disk

A link belongs to the first browser that opens it: a cookie binds the two.
"""

import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Cookie, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict

from nextquery.study.judgements import JudgementStore
from nextquery.study.pool import Pool, PooledTopic, read_pool

_STATIC = Path(__file__).parent / "static"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # the token is in the address
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_WRONG = "This link is not valid. Ask the owner of the study for your link."
_REUSED = (
    "This link is already in use in another browser. Go on there, or ask the owner of the study to "
    "release it."
)


class JudgementIn(BaseModel):
    """One judgement as the page sends it; null takes the current one back."""

    model_config = ConfigDict(extra="forbid")

    item: int
    value: Literal["useful", "somewhat useful", "not useful"] | None


def create_study_app(study: Path) -> FastAPI:
    """The application for one study folder."""
    pool, store = read_pool(study), JudgementStore(study)
    orders: dict[int, tuple[PooledTopic, ...]] = {}
    app = FastAPI(title="nextquery study", docs_url=None, redoc_url=None, openapi_url=None)
    app.middleware("http")(_add_headers)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")

    def assessor_of(token: str, browser: Annotated[str | None, Cookie()] = None) -> int:
        assessor = store.assessor(token)
        if assessor is None:
            raise HTTPException(403, _WRONG)
        if browser is None or not store.claim(assessor, browser):
            raise HTTPException(403, _REUSED)
        return assessor

    @app.get("/a/{token}")
    def page(token: str, browser: Annotated[str | None, Cookie()] = None) -> Response:
        assessor = store.assessor(token)
        if assessor is None:
            return _refusal(_WRONG)
        browser = browser or secrets.token_urlsafe(24)
        if not store.claim(assessor, browser):
            return _refusal(_REUSED)
        answer = FileResponse(_STATIC / "index.html")
        answer.set_cookie(
            "browser",
            browser,
            max_age=365 * 86400,
            path=f"/a/{token}",
            httponly=True,
            samesite="strict",
        )
        return answer

    @app.get("/a/{token}/state")
    def state(assessor: Annotated[int, Depends(assessor_of)]) -> dict[str, Any]:
        order = orders.setdefault(assessor, pool.shuffled(assessor))
        return _state(order, store, assessor)

    @app.post("/a/{token}/judgements")
    def judge(
        judgement: JudgementIn, assessor: Annotated[int, Depends(assessor_of)]
    ) -> dict[str, Any]:
        if judgement.item not in _items(pool):
            raise HTTPException(422, "The study has no such suggestion.")
        store.judge(assessor, judgement.item, judgement.value)
        return {"item": judgement.item, "value": judgement.value}

    return app


def _items(pool: Pool) -> set[int]:
    return {item.id for topic in pool.topics for item in topic.items}


def _state(order: tuple[PooledTopic, ...], store: JudgementStore, assessor: int) -> dict[str, Any]:
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
            for pooled in order
        ]
    }


def _refusal(message: str) -> Response:
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>No access</title>'
        '<link rel="stylesheet" href="/static/study.css">'
        f'<main class="refusal"><h1>No access</h1><p>{message}</p></main></html>'
    )
    return HTMLResponse(page, 403)


async def _add_headers(
    request: Request, handle: Callable[[Request], Awaitable[Response]]
) -> Response:
    answer = await handle(request)
    answer.headers.update(_HEADERS)
    return answer
