"""Pieces of the report's page: escaped text, tables, plots, sections."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

PLOTS = "figures"
"""The folder of the plots within the report."""

_STYLE = Path(__file__).with_name("report.css")


@dataclass(frozen=True)
class Cell:
    """A table's cell; `mark` is a class of the style sheet such as `good` or `paper`."""

    text: str
    mark: str = ""
    note: str = ""
    """Small print under the text."""


Row = Sequence[Cell | str]


def table(heads: Row, rows: Iterable[Row], caption: str = "") -> str:
    """A table; the first column names the row."""
    head = "".join(_cell(cell, "th") for cell in heads)
    body = "".join(
        "<tr>" + "".join(_cell(cell, "td" if n else "th") for n, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def paragraph(text: str, mark: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{_class(mark)}>{escape(text)}</p>"


def bullets(texts: Iterable[str]) -> str:
    """A list of plain texts."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def plot(file: str, message: str, alt: str) -> str:
    """A plot with its message as caption."""
    return (
        f'<figure><img src="{escape(file)}" alt="{escape(alt)}">'
        f"<figcaption>{escape(message)}</figcaption></figure>"
    )


def section(anchor: str, title: str, *parts: str) -> str:
    """A section of the page that can be linked to."""
    return f'<section id="{escape(anchor)}"><h2>{escape(title)}</h2>{"".join(parts)}</section>'


def heading(text: str) -> str:
    """A heading within a section."""
    return f"<h3>{escape(text)}</h3>"


def document(title: str, lead: str, links: Iterable[tuple[str, str]], parts: Iterable[str]) -> str:
    """The whole page, its style inside, nothing fetched from elsewhere."""
    menu = "".join(f'<a href="#{escape(anchor)}">{escape(name)}</a>' for anchor, name in links)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE.read_text(encoding='utf-8')}</style></head>"
        f"<body><header><h1>{escape(title)}</h1><p>{escape(lead)}</p><nav>{menu}</nav></header>"
        f"<main>{''.join(parts)}</main></body></html>\n"
    )


def _cell(cell: Cell | str, tag: str) -> str:
    cell = Cell(cell) if isinstance(cell, str) else cell
    note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
    return f"<{tag}{_class(cell.mark)}>{escape(cell.text)}{note}</{tag}>"


def _class(mark: str) -> str:
    return f' class="{escape(mark)}"' if mark else ""
