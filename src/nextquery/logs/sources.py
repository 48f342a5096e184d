"""Fetch logs from OpenSearch indices and from `ir_datasets` into local files."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nextquery.artifacts import check_target, write_text
from nextquery.artifacts.files import read_plain_text, try_lock, unlock
from nextquery.errors import InputError, LogError, MissingDependencyError, missing_message
from nextquery.logs.formats.delimited import HEADER

Progress = Callable[[str, float], None]

_LINES = 50_000
_BREAKS = re.compile(r"[\t\r\n]+")


def fetch_dataset(name: str, folder: Path, progress: Progress) -> list[Path]:
    """Write the query log of a dataset into one file; an unfinished one is begun again."""
    file = folder / "log.tsv"
    if file.exists():
        return [file]
    logs = _open(name)
    total = max(1, int(logs.qlogs_count() or 1))
    partial = folder / "log.partial"
    with partial.open("w", encoding="utf-8", errors="replace") as stream:
        stream.write(HEADER + "\n")
        for number, log in enumerate(logs.qlogs_iter()):
            stream.writelines(_lines(log))
            if number % _LINES == 0:
                progress("fetching", min(1.0, number / total))
    partial.rename(file)
    return [file]


def _open(name: str) -> Any:
    """The dataset, if it has a query log."""
    try:
        import ir_datasets
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "ir_datasets is not installed: pip install ir_datasets; or give the files of the log"
        ) from None
    try:
        dataset = ir_datasets.load(name)
    except (KeyError, ValueError, OSError) as error:
        raise LogError(f"{name}: ir_datasets cannot load it ({_shown(error)})") from None
    if not dataset.has_qlogs():
        raise LogError(f"{name}: has no query log; aol-ia has one")
    fields = dataset.qlogs_cls()._fields
    if not {"user_id", "query", "time"} <= set(fields):
        raise LogError(f"{name}: its query log has {', '.join(fields)}; no users, times or queries")
    return dataset


def _lines(log: Any) -> Iterator[str]:
    """A row for the query, or one for each click on its results."""
    typed = getattr(log, "query_orig", None) or log.query
    time = log.time.strftime("%Y-%m-%d %H:%M:%S") if isinstance(log.time, datetime) else log.time
    start = f"{_field(log.user_id)}\t{_field(typed)}\t{_field(time)}"
    items = getattr(log, "items", ())
    clicked = [item for item in items if getattr(item, "clicked", False)]
    for item in clicked:
        yield f"{start}\t{getattr(item, 'rank', '')}\t{_field(item.doc_id)}\n"
    if not clicked:
        yield f"{start}\t\t\n"


def _field(value: object) -> str:
    return _BREAKS.sub(" ", str(value))


def _shown(error: Exception) -> str:
    return "".join(filter(str.isprintable, str(error)))[:200] or type(error).__name__


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
    LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError
)  # fmt: skip
"""What comes of reading an answer, or a note, of another form."""


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
    """Refuse what is not an address, and one that holds or would give away a password."""
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
            problem = f"it answers as no OpenSearch does: {type(error).__name__}"
            raise _broken(address, index, state, LogError(problem)) from None
    return state


def _broken(address: str, index: str, state: FetchState, error: Exception) -> LogError:
    return LogError(
        f"{address}: {index} could not be read to its end ({_shown(error)}); "
        f"{state.documents:,} documents are kept, and the same command continues from there"
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
    hits: list[dict[str, Any]] = answer["hits"]["hits"]
    if not isinstance(hits, list):
        raise TypeError("hits")
    return hits


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
    ids_read = set(state.ids)
    fresh = [hit for hit in page if hit["sort"][0] != state.last or _name(hit) not in ids_read]
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


FILES, OPENSEARCH, IR_DATASETS = SOURCES = ("files", "opensearch", "ir_datasets")


def check_source(source: str, logs: Sequence[str], indices: Sequence[str]) -> None:
    """Refuse an unknown source, and options that it does not take."""
    if source not in SOURCES:
        raise InputError(f"`source` {source}: not one of {', '.join(SOURCES)}")
    if source != FILES and len(logs) != 1:
        raise InputError(f"`source` {source}: give one address or name, not {len(logs)}")
    if source == OPENSEARCH and not indices:
        raise InputError("`index`: opensearch needs it, such as ubi_queries,ubi_events")
    if source != OPENSEARCH and indices:
        raise InputError(f"`index` goes with opensearch, not with {source}")


@contextmanager
def fetched_logs(
    source: str, logs: Sequence[str], indices: Sequence[str], out: Path, progress: Progress
) -> Iterator[Sequence[str | Path]]:
    """The logs as files: those given, or what the source has."""
    check_source(source, logs, indices)
    if source == FILES:
        yield logs
        return
    check_target(out, "data")
    folder = out.parent / f"{out.name}.fetched"
    if source == OPENSEARCH:
        check_address(logs[0])  # before it is written down: it may have a password
    with _locked(folder):
        _claim(folder, {"source": source, "name": logs[0]})
        if source == OPENSEARCH:
            yield fetch_indices(logs[0], indices, folder, progress)
        else:
            yield fetch_dataset(logs[0], folder, progress)
        shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Make the folder and lock it; refuse one that another job is using."""
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            if try_lock(descriptor) is False:
                raise InputError(
                    f"{folder}: another job is fetching into it; wait until it ends, or choose "
                    "another `out`"
                )
            # A job that ended meanwhile has removed the folder that was opened.
            if folder.is_dir() and os.path.samestat(os.fstat(descriptor), folder.stat()):
                yield
                return
        finally:
            unlock(descriptor)


def _claim(folder: Path, origin: dict[str, str]) -> None:
    """Note the source in an empty folder, or check that it was fetched from the same source."""
    note = folder / "source.json"
    if not any(folder.iterdir()):
        write_text(note, json.dumps(origin))
        return
    try:
        claimed = json.loads(read_plain_text(note))
    except (OSError, ValueError):
        problem = "does not say what it was fetched from; remove it first"
        raise InputError(f"{folder}: {problem}") from None
    if claimed != origin:
        name = claimed.get("name") if isinstance(claimed, dict) else claimed
        raise InputError(f"{folder}: holds what was fetched from {name}; remove it first")
