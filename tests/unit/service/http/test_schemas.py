"""Requests are strict: unknown fields, wrong types and sizes beyond the bounds are refused."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter, ValidationError

from nextquery.service import schemas
from nextquery.service.settings import MAX_CONTEXT_QUERIES, MAX_QUERY_CHARACTERS, ServiceSettings
from nextquery.suggesters.asking import SuggestOptions


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": 1},
        {"query": "x", "n": 0},
        {"query": "x", "n": 51},
        {"query": "x", "n": 2.5},
        {"query": "x", "n": True},
        {"query": "x", "diversity": 1.1},
        {"query": "x", "specificity": -0.1},
        {"query": "x", "known": "maybe"},
        {"query": "x" * (MAX_QUERY_CHARACTERS + 1)},
        {"query": "x", "context": ["y"] * (MAX_CONTEXT_QUERIES + 1)},
        {"query": "x", "session_id": "a b"},
        {"query": "x", "surprise": 1},
    ],
)
def test_a_bad_request_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        schemas.SuggestRequest.model_validate(body)


def test_options_are_those_of_the_request_or_else_of_the_service(
    settings: ServiceSettings,
) -> None:
    service = replace(settings, n=7, specificity=0.1, known="free")
    body = {"query": "x", "n": 5.0, "diversity": 0.5, "specificity": 0.0, "known": "only"}
    asked = schemas.SuggestRequest.model_validate(body).options(service)
    assert asked == SuggestOptions(n=5, diversity=0.5, specificity=0.0, known="only")
    asked = schemas.SuggestRequest.model_validate({"query": "x"}).options(service)
    assert asked == SuggestOptions(n=7, diversity=0.0, specificity=0.1, known="free")


def test_a_whole_number_may_be_written_with_a_point() -> None:
    """Every whole number of every request: JSON has one kind of number."""
    asked = schemas.SuggestRequest.model_validate({"query": "x", "n": 3.0, "results": 0.0})
    assert (asked.n, asked.results) == (3, 0)
    with pytest.raises(ValidationError):
        schemas.SuggestRequest.model_validate({"query": "x", "results": 0.5})


def test_feedback_is_told_apart_by_its_action() -> None:
    reader: TypeAdapter[schemas.FeedbackRequest] = TypeAdapter(schemas.FeedbackRequest)
    same = {"query_id": "a", "client_id": "b", "query": "c"}
    clicked = reader.validate_python(
        {**same, "action": "clicked", "suggestion": "d", "position": 1}
    )
    assert isinstance(clicked, schemas.Clicked)
    with pytest.raises(ValidationError):
        reader.validate_python({**same, "action": "clicked"})
    with pytest.raises(ValidationError):
        reader.validate_python({**same, "action": "loved"})
