"""Documents are fetched once each, whatever happens on the way."""

import json
from pathlib import Path

import pytest

from nextquery.errors import InputError, LogError
from nextquery.logs.sources import check_address, fetch_indices

from .opensearch_stub import Document, Stub, serving


def query(number: int, minute: int | None) -> tuple[str, Document]:
    source = {"query_id": f"q{number}", "client_id": "u", "user_query": f"red {number}"}
    time = {} if minute is None else {"timestamp": f"2025-02-18T10:{minute:02}:00+00:00"}
    return f"id-{number}", source | time


# Many share a minute, across the ends of pages; two have no time at all.
MINUTES = [0, 0, 1, 1, 1, 1, 1, 2, 3, 3, 4, None, None]
QUERIES = [query(number, minute) for number, minute in enumerate(MINUTES)]


def quiet(stage: str, share: float) -> None:
    assert stage == "fetching"
    assert 0 < share <= 1


def ids(files: list[Path]) -> list[str]:
    return [json.loads(line)["_id"] for file in files for line in file.read_text().splitlines()]


EVERY = [name for name, _ in QUERIES]


def test_all_documents_in_the_order_of_their_times(tmp_path: Path) -> None:
    shuffled = QUERIES[5:] + QUERIES[:5]
    with serving(Stub({"ubi_queries": shuffled, "ubi_events": QUERIES[:2]})) as stub:
        files = fetch_indices(stub.address, ["ubi_queries", "ubi_events"], tmp_path, quiet)
        assert not any(stub.open.values()), "every scroll is cleared"
    found = ids(files)
    assert sorted(found[: len(EVERY)]) == sorted(EVERY)
    assert found[:2] == ["id-0", "id-1"]
    assert set(found[len(EVERY) - 2 : len(EVERY)]) == {"id-11", "id-12"}
    assert found[len(EVERY) :] == ["id-0", "id-1"]


@pytest.mark.parametrize("pages", range(1, 6))
def test_a_lost_connection_loses_and_repeats_nothing(tmp_path: Path, pages: int) -> None:
    with serving(Stub({"ubi_queries": QUERIES}, fails_after=pages)) as stub:
        files = fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
    assert ids(files) == EVERY


class CutOffError(Exception):
    pass


@pytest.mark.parametrize("pages", range(1, 6))
def test_a_job_that_was_cut_off_goes_on(tmp_path: Path, pages: int) -> None:
    """The second run is asked only for what comes from the last time on."""
    heard = 0

    def cut(stage: str, share: float) -> None:
        nonlocal heard
        heard += 1
        if heard == pages:
            raise CutOffError

    with serving(Stub({"ubi_queries": QUERIES})) as stub:
        with pytest.raises(CutOffError):
            fetch_indices(stub.address, ["ubi_queries"], tmp_path, cut)
        stub.pages = 0
        files = fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
        assert ids(files) == EVERY
        assert stub.pages <= 7 - pages + 1
        stub.pages = 0
        assert fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet) == files
        assert stub.pages == 0, "what is done is not asked again"


def test_a_page_that_some_shards_missed_is_not_taken(tmp_path: Path) -> None:
    with (
        serving(Stub({"ubi_queries": QUERIES}, failed_shards=1)) as stub,
        pytest.raises(LogError, match=r"1 of 2 shards failed\); 0 documents are kept"),
    ):
        fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    with serving(Stub({"ubi_queries": []})) as stub:
        with pytest.raises(LogError, match=r"nowhere could not be read .*index_not_found"):
            fetch_indices(stub.address, ["nowhere"], tmp_path, quiet)
        with pytest.raises(LogError, match="ubi_queries hold no documents"):
            fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
        with pytest.raises(InputError, match=r"`index` \.\./x: no name of an index"):
            fetch_indices(stub.address, ["../x"], tmp_path, quiet)
        with pytest.raises(InputError, match="holds what was fetched from"):
            fetch_indices(f"{stub.address}/", ["ubi_queries"], tmp_path, quiet)
    with pytest.raises(LogError, match="0 documents are kept, and the same command goes on"):
        fetch_indices(stub.address, ["other"], tmp_path, quiet)


def test_credentials_come_from_the_environment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXTQUERY_OPENSEARCH_USERNAME", "reader")
    with serving(Stub({"ubi_queries": QUERIES}, password="secret")) as stub:
        with pytest.raises(InputError, match="set both NEXTQUERY_OPENSEARCH_USERNAME and"):
            fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
        monkeypatch.setenv("NEXTQUERY_OPENSEARCH_PASSWORD", "wrong")
        with pytest.raises(LogError, match="401") as refused:
            fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)
        assert "wrong" not in str(refused.value)
        monkeypatch.setenv("NEXTQUERY_OPENSEARCH_PASSWORD", "secret")
        assert ids(fetch_indices(stub.address, ["ubi_queries"], tmp_path, quiet)) == EVERY
        assert not [file for file in tmp_path.iterdir() if "secret" in file.read_text()]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("host:9200", "give an address such as https"),
        ("ftp://host", "give an address such as https"),
        ("https://me:secret@host:9200", "https://host:9200: name and password do not belong"),
        ("http://host:9200", "would send the password in clear; use https"),
    ],
)
def test_addresses_that_are_refused(
    address: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXTQUERY_OPENSEARCH_PASSWORD", "secret")
    with pytest.raises(InputError, match=message) as refused:
        check_address(address)
    assert "secret" not in str(refused.value)
