"""UBI where it lies: the documents of OpenSearch indices, fetched page by page into files.

Documents come by the scroll API in the order of their `timestamp`, each page a file. What has been
fetched is noted after every page (`INDEX.json`), so that a job that was cut off asks for what comes
from the last time on, and leaves out the documents of that time which it has. A lost connection is
treated the same way: a scroll that failed is never asked again, since its page may be gone.

Name and password come from the environment (`NEXTQUERY_OPENSEARCH_USERNAME` and `..._PASSWORD`),
a file of certificates from `NEXTQUERY_OPENSEARCH_CA`.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nextquery.artifacts import write_text
from nextquery.errors import InputError, LogError, MissingDependencyError
from nextquery.extras import missing_message
from nextquery.plain_files import read_plain_text

_PAGE = 5_000
_KEPT_OPEN = "5m"
_TRIES = 3
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_INDEX = re.compile(r"[a-z0-9][a-z0-9._*-]{0,200}")
_NO_TIME = 2**63 - 1
"""What documents without a timestamp are sorted by: they come last."""
_USER, _PASSWORD, _CERTIFICATES = (
    f"NEXTQUERY_OPENSEARCH_{name}" for name in ("USERNAME", "PASSWORD", "CA")
)

_NO_SUCH_ANSWER = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
"""What comes of reading an answer, or a note, of another form."""

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class FetchState:
    """How far the documents of an index have been fetched."""

    address: str
    parts: int = 0
    documents: int = 0
    last: int | None = None
    """The last timestamp, in milliseconds since 1970."""
    ids: tuple[str, ...] = ()
    """The documents of that time that have been fetched."""
    done: bool = False


def fetch_indices(
    address: str, indices: Sequence[str], folder: Path, progress: Progress
) -> list[Path]:
    """Fetch what is still missing of some indices; returns the files of all of them."""
    check_address(address)
    wrong = [index for index in indices if not _INDEX.fullmatch(index)]
    if wrong:
        raise InputError(f"`index` {wrong[0]}: no name of an index")
    files: list[Path] = []
    client = _connect(address)
    try:
        for index in indices:
            state = _fetch(client, address, index, folder, progress)
            files += [_part(folder, index, number) for number in range(state.parts)]
    finally:
        client.close()
    if not files:
        raise LogError(f"{address}: {', '.join(indices)} hold no documents")
    return files


def check_address(address: str) -> None:
    """Refuse what is no address, and one that holds or would give away a password."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{_without_user(address)}: give an address such as https://host:9200")
    if parts.username or parts.password:
        raise InputError(
            f"{_without_user(address)}: name and password do not belong into an address; set "
            f"{_USER} and {_PASSWORD}"
        )
    if parts.scheme == "http" and os.environ.get(_PASSWORD) and parts.hostname not in _LOCAL:
        raise InputError(f"{address}: would send the password in clear; use https")


def _without_user(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address)


def _connect(address: str) -> Any:
    try:
        from opensearchpy import OpenSearch
    except ModuleNotFoundError:
        raise MissingDependencyError(missing_message("opensearchpy") or "") from None
    user, password = os.environ.get(_USER), os.environ.get(_PASSWORD)
    if bool(user) != bool(password):
        raise InputError(f"set both {_USER} and {_PASSWORD}, or none")
    options: dict[str, Any] = {"http_auth": (user, password)} if user else {}
    if os.environ.get(_CERTIFICATES):
        options["ca_certs"] = os.environ[_CERTIFICATES]
    # A page of a scroll can be asked for only once.
    return OpenSearch(address, timeout=60, max_retries=0, retry_on_timeout=False, **options)


def _fetch(client: Any, address: str, index: str, folder: Path, progress: Progress) -> FetchState:
    """Fetch all pages of an index that are still missing, over several connections if need be."""
    from opensearchpy.exceptions import ConnectionError as Lost
    from opensearchpy.exceptions import OpenSearchException

    state, failed = _read_state(folder, address, index), 0
    while not state.done:
        before = state.parts
        try:
            for page, share in _pages(client, index, state):
                state = _keep(page, state, index, folder)
                progress("fetching", share)
            state = replace(state, done=True)
            _write_state(state, folder, index)
        except Lost as error:
            failed = failed + 1 if state.parts == before else 1
            if failed >= _TRIES:
                raise _broken(address, index, state, error) from None
        except OpenSearchException as error:
            raise _broken(address, index, state, error) from None
        except _NO_SUCH_ANSWER as error:
            what = f"it answers as no OpenSearch does: {type(error).__name__}"
            raise _broken(address, index, state, LogError(what)) from None
    return state


def _broken(address: str, index: str, state: FetchState, error: Exception) -> LogError:
    shown = "".join(filter(str.isprintable, str(error)))[:200] or type(error).__name__
    return LogError(
        f"{address}: {index} could not be read to its end ({shown}); {state.documents:,} documents "
        "are kept, and the same command goes on from there"
    )


def _pages(
    client: Any, index: str, state: FetchState
) -> Iterator[tuple[list[dict[str, Any]], float]]:
    """The documents from the last time on, and the share of the index that has been read."""
    from opensearchpy.exceptions import OpenSearchException

    body = {
        "query": _remaining(state.last),
        "sort": [{"timestamp": {"order": "asc", "missing": "_last", "unmapped_type": "date"}}],
        "track_total_hits": True,
    }
    answer = client.search(index=index, body=body, scroll=_KEPT_OPEN, size=_PAGE)
    scroll = answer["_scroll_id"]
    try:
        read, total = 0, max(1, int(answer["hits"]["total"]["value"]))
        while page := _whole_page(answer):
            read += len(page)
            if read > total + _PAGE:  # documents may come while it is read, but not for ever
                raise OpenSearchException(f"{read:,} documents where there should be {total:,}")
            yield page, min(1.0, read / total)
            answer = client.scroll(body={"scroll_id": scroll, "scroll": _KEPT_OPEN})
            scroll = answer.get("_scroll_id", scroll)
    finally:
        with suppress(OpenSearchException):  # it ends by itself, too
            client.clear_scroll(body={"scroll_id": [scroll]})


def _whole_page(answer: Any) -> list[dict[str, Any]]:
    """The documents of an answer that all shards gave."""
    from opensearchpy.exceptions import OpenSearchException

    shards = answer.get("_shards", {})
    if shards.get("failed"):
        raise OpenSearchException(f"{shards['failed']} of {shards.get('total')} shards failed")
    found: list[dict[str, Any]] = answer["hits"]["hits"]
    if not isinstance(found, list):
        raise TypeError("hits")
    return found


def _remaining(last: int | None) -> dict[str, Any]:
    """The query for documents from a time on; those without a time come after all others."""
    timeless = {"bool": {"must_not": {"exists": {"field": "timestamp"}}}}
    if last is None:
        return {"match_all": {}}
    if last == _NO_TIME:
        return timeless
    later = {"range": {"timestamp": {"gte": last, "format": "epoch_millis"}}}
    return {"bool": {"should": [later, timeless], "minimum_should_match": 1}}


def _keep(page: list[dict[str, Any]], state: FetchState, index: str, folder: Path) -> FetchState:
    """Write the documents of a page that are new, then note how far it goes."""
    known = set(state.ids)
    fresh = [hit for hit in page if hit["sort"][0] != state.last or _name(hit) not in known]
    if not fresh:
        return state
    sources = ({"_id": hit["_id"], "_source": hit.get("_source", {})} for hit in fresh)
    lines = "".join(json.dumps(source) + "\n" for source in sources)
    write_text(_part(folder, index, state.parts), lines)
    last = int(fresh[-1]["sort"][0])
    before = state.ids if last == state.last else ()
    names = (_name(hit) for hit in fresh if hit["sort"][0] == last)
    state = replace(
        state,
        parts=state.parts + 1,
        documents=state.documents + len(fresh),
        last=last,
        ids=(*before, *names),
    )
    _write_state(state, folder, index)
    return state


def _name(hit: dict[str, Any]) -> str:
    return f"{hit.get('_index')}/{hit['_id']}"


def _part(folder: Path, index: str, number: int) -> Path:
    return folder / f"{_stem(index)}-{number:06}.ndjson"


def _read_state(folder: Path, address: str, index: str) -> FetchState:
    file = folder / f"{_stem(index)}.json"
    if not file.exists():
        return FetchState(address)
    try:
        fields = json.loads(read_plain_text(file))
        state = FetchState(**{**fields, "ids": tuple(fields["ids"])})
    except (OSError, *_NO_SUCH_ANSWER):
        raise InputError(f"{file}: cannot be read; remove {folder} and fetch again") from None
    if state.address != address:
        raise InputError(f"{folder}: holds what was fetched from {state.address}; remove it first")
    return state


def _write_state(state: FetchState, folder: Path, index: str) -> None:
    write_text(folder / f"{_stem(index)}.json", json.dumps(asdict(state)))


def _stem(index: str) -> str:
    """The index as part of a file's name."""
    return index.replace("*", "+")
