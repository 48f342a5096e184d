"""Who is let in, and how often: decided before a request is parsed.

An ASGI layer around the routes. Whatever becomes of a request, it costs its sender one of its rate:
wrong keys and bodies that are not valid, too. What it costs the model is charged later, when it is
known (`access.charge`).
"""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from nextquery.service.http import problems
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.problems import ProblemError, no_key, too_many
from nextquery.service.service import Service

API_HEADER, ADMIN_HEADER = "X-API-Key", "X-Admin-Key"
DOCUMENTS = ("/docs", "/openapi.json", "/static/swagger")


class Door:
    """Asks for the key that a path needs and counts the request."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        area = self._area(scope)
        if area is not None:
            scope["area"] = area
            try:
                self._admit(scope, area)
            except ProblemError as refusal:
                facts = refusal.status, refusal.detail, scope["request_id"], refusal.headers
                await problems.answer(*facts)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _area(self, scope: Scope) -> str | None:
        """The part of the service that a request is for; None where everybody may look."""
        if scope["type"] != "http" or scope["method"] == "OPTIONS":
            return None
        path: str = scope["path"]
        public = self._service.settings.public
        for area in ("/v1", "/admin"):
            if path == area or path.startswith(f"{area}/"):
                return area
        if path == "/metrics" and "metrics" not in public:
            return path
        if path.startswith(DOCUMENTS) and "docs" not in public:
            return "/docs"
        return None

    def _admit(self, scope: Scope, area: str) -> None:
        headers = Headers(scope=scope)
        if area == "/admin":
            keys, header = self._service.admin_keys, ADMIN_HEADER
        else:
            keys, header = self._service.keys, API_HEADER
        name = keys.name(headers.get(header, "")) if len(keys) else None
        client = scope.get("client")
        # Guesses at keys are counted by address: a wrong key has no name.
        scope["rate_name"] = f"key {name}" if name else f"address {client[0] if client else ''}"
        if name:
            scope["key_name"] = name
        if wait := self._service.rate.wait(scope["rate_name"]):
            raise too_many(wait)
        if name is None and (len(keys) or area == "/admin"):
            raise no_key(header) if len(keys) else ProblemError(404, problems.TITLES[404])


def known(keys: KeyRing, key: str | None, header: str) -> str:
    """The name of a key's owner; 401 if there is none."""
    name = keys.name(key) if key else None
    if name is None:
        raise no_key(header)
    return name
