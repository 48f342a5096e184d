"""The service as one app: which routes there are, and what its document says."""

from collections.abc import Callable
from pathlib import Path

from starlette.testclient import TestClient

from nextquery.service.keys import new_key

Open = Callable[..., TestClient]


def test_the_document_names_the_served_models_and_problems(open_client: Open) -> None:
    document = open_client().get("/openapi.json").json()
    model = document["components"]["schemas"]["SuggestRequest"]["properties"]["model"]
    assert model["anyOf"][0]["enum"] == ["adj", "pop"]
    refused = document["paths"]["/v1/suggest"]["post"]["responses"]["422"]["content"]
    assert list(refused) == ["application/problem+json"]
    assert not any(path.startswith("/admin") for path in document["paths"])


def test_the_links_of_a_list_lead_to_routes_that_exist(open_client: Open) -> None:
    document = open_client().get("/openapi.json").json()
    links = document["paths"]["/v1/suggest"]["post"]["responses"]["200"]["links"]
    known = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    linked = {link["operationId"] for link in links.values()}
    assert linked <= known
    # A list, its feedback, the next list of the session, its end: what schemathesis follows.
    assert {name.split("_v1_")[0] for name in linked} == {"feedback", "suggest", "delete_session"}


def test_the_document_asks_for_keys_only_where_the_service_does(
    open_client: Open, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text(new_key("shop").line)
    guarded = open_client(keys_file=tmp_path / "keys", public=frozenset({"docs"}))
    for client, asked in ((open_client(), False), (guarded, True)):
        document = client.get("/openapi.json").json()
        assert ("security" in document["paths"]["/v1/suggest"]["post"]) == asked


def test_other_origins_are_let_in_only_where_they_are_named(open_client: Open) -> None:
    asked = {"Origin": "https://shop.example"}
    named = open_client(cors_origins=("https://shop.example",)).get("/v1/models", headers=asked)
    assert named.headers["access-control-allow-origin"] == "https://shop.example"
    assert named.headers["access-control-expose-headers"] == "Retry-After"
    assert "access-control-allow-credentials" not in named.headers, "no cookies are used"
    unnamed = open_client().get("/v1/models", headers=asked)
    assert "access-control-allow-origin" not in unnamed.headers
