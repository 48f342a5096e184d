"""Titles of what a site has: from a text file, a column of a CSV file, or a sitemap.

A new or small site gets completions and fill-in suggestions from them. They are cleaned as queries
are; the K-user rule does not apply, because the site published them.
"""

import csv
import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import polars as pl

from nextquery.artifacts.files import check_plain_file, read_plain_text
from nextquery.errors import InputError
from nextquery.logs.cleaning import clean_texts
from nextquery.logs.settings import PrepareSettings

LONGEST = 100
"""Characters of a normalised title that can be shown as a suggestion; longer ones are left out."""
_LARGEST = 200_000_000
"""Bytes of an unpacked sitemap: four times what the protocol allows."""
_SEPARATORS = (",", ";", "\t", "|")


def read_titles(source: str, settings: PrepareSettings) -> list[str]:
    """The normalised titles of FILE or FILE:column, each once, in their order.

    A file that begins as XML is a sitemap, with a column it is CSV, else it has one title per line.
    """
    file, column = _split(source)
    check_plain_file(file)
    raw = _csv_column(file, column) if column else _lines_or_sitemap(file)
    texts = pl.DataFrame({"query": raw}, schema={"query": pl.String}).with_row_index("raw_id")
    cleaned = clean_texts(texts, settings)["query"].drop_nulls().unique(maintain_order=True)
    titles = cleaned.filter(cleaned.str.len_chars() <= LONGEST).to_list()
    if not titles:
        raise InputError(
            f"`titles` {source}: has no title of at most {LONGEST} characters; give one per line, "
            "FILE:column of a CSV file, or a sitemap"
        )
    return titles


def _split(source: str) -> tuple[Path, str]:
    """`FILE:column` as file and column; a file of that whole name comes first."""
    file, colon, column = source.rpartition(":")
    if not colon or not column or Path(source).exists() or not Path(file).exists():
        return Path(source), ""
    return Path(file), column


def _csv_column(file: Path, column: str) -> list[str]:
    lines = _text(file).splitlines(keepends=True)
    header = lines[0] if lines else ""
    separator = max(_SEPARATORS, key=header.count)
    rows = csv.DictReader(io.StringIO("".join(lines), newline=""), delimiter=separator)
    names = [name.strip() for name in rows.fieldnames or ()]
    if column not in names:
        listed = ", ".join(names[:20]) or "no columns"
        raise InputError(f"`titles` {file}: has no column {column!r}; it has {listed}")
    rows.fieldnames = names
    try:
        return [row[column] or "" for row in rows]
    except csv.Error as error:
        raise InputError(f"`titles` {file}, line {rows.line_num}: not CSV ({error})") from None


def _lines_or_sitemap(file: Path) -> list[str]:
    with file.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    if not packed and not _text(file).lstrip().startswith("<"):
        return _text(file).splitlines()
    try:
        with gzip.open(file) if packed else file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise InputError(f"`titles` {file}: larger than {_LARGEST:,} bytes; give it in parts")
        return list(_sitemap_titles(file, content))
    except (OSError, EOFError, ElementTree.ParseError) as error:
        raise InputError(f"`titles` {file}: cannot be read as a sitemap ({error})") from None


def _sitemap_titles(file: Path, content: bytes) -> Iterator[str]:
    """The title of each address of a sitemap, or the last part of its path."""
    # Entities can make a small file huge; no sitemap has a document type.
    if re.search(rb"<!(?:DOCTYPE|ENTITY)", content):
        raise InputError(f"`titles` {file}: a sitemap with a DOCTYPE is not read; remove it")
    root = ElementTree.fromstring(content)
    if _name(root) == "sitemapindex":
        raise InputError(f"`titles` {file}: an index of sitemaps; give one of those that it names")
    for url in root:
        named = {_name(element): (element.text or "").strip() for element in url.iter()}
        yield named.get("title") or title_of_address(named.get("loc", ""))


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def title_of_address(address: str) -> str:
    """The last part of an address's path as a title.

    >>> title_of_address("https://shop.example/shoes/red-running_shoes.html?page=2")
    'red running shoes'
    >>> title_of_address("https://shop.example/")
    ''
    """
    try:
        path = PurePosixPath(unquote(urlsplit(address).path))
    except ValueError:
        return ""
    stem = path.stem if re.fullmatch(r"\.[a-z]{2,5}", path.suffix) else path.name
    return re.sub(r"[-_+]+", " ", stem).strip()


def _text(file: Path) -> str:
    try:
        return read_plain_text(file, "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"`titles` {file}: cannot be read as UTF-8 text ({error})") from None
