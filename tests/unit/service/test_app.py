"""The service as one app: which routes there are, and what its document says."""

from collections.abc import Callable

from starlette.testclient import TestClient

Open = Callable[..., TestClient]


def test_the_document_names_the_served_models_and_problems(open_client: Open) -> None:
    document = open_client().get("/openapi.json").json()
    model = document["components"]["schemas"]["SuggestRequest"]["properties"]["model"]
    assert model["anyOf"][0]["enum"] == ["adj", "pop"]
    refused = document["paths"]["/v1/suggest"]["post"]["responses"]["422"]["content"]
    assert list(refused) == ["application/problem+json"]
    assert not any(path.startswith("/admin") for path in document["paths"])


def test_other_origins_are_let_in_only_where_they_are_named(open_client: Open) -> None:
    asked = {"Origin": "https://shop.example"}
    named = open_client(cors_origins=("https://shop.example",)).get("/v1/models", headers=asked)
    assert named.headers["access-control-allow-origin"] == "https://shop.example"
    unnamed = open_client().get("/v1/models", headers=asked)
    assert "access-control-allow-origin" not in unnamed.headers
