"""Errors as documents that never repeat what a client sent."""

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from nextquery.service.schemas import TITLES, BusyError, document, invalid_key, rate_exceeded

Open = Callable[..., TestClient]
SECRET = "zyzzyva"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/suggest", {"query": "x", SECRET: 1}, 422),
        ("/v1/suggest", {"query": "x", "n": SECRET}, 422),
        ("/v1/suggest", {"query": "x", "model": SECRET}, 422),
        (f"/{SECRET}", {}, 404),
        ("/v1/models", {}, 405),
    ],
)
def test_an_error_is_a_problem_document(
    open_client: Open, path: str, body: dict[str, object], status: int
) -> None:
    answer = open_client().post(path, json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert (found["status"], found["title"]) == (status, TITLES[status])
    assert found["request_id"] == answer.headers["x-request-id"]
    assert "n" not in body or SECRET not in answer.text, "values are never repeated"


def test_a_refusal_says_when_to_come_again_in_whole_seconds() -> None:
    assert BusyError("later", 0.2, "busy").headers == {"Retry-After": "1"}
    assert rate_exceeded(7.6).headers == {"Retry-After": "8"}
    assert (rate_exceeded(1).status, invalid_key("X-API-Key").status) == (429, 401)


def test_a_status_without_a_title_of_its_own_has_one() -> None:
    assert document(418, "tea", "id")["title"] == "The request failed"
