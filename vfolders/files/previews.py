"""Turns files into what the page may show of them. Files are untrusted: tables, Markdown and notebooks
become escaped text and a few known elements; nothing of a file becomes a script, a style, a form or a
request to another host. Images are sent on their own, see `web/previews.py`.
"""

import base64
import binascii
import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from django.utils.safestring import SafeString
from markdown_it import MarkdownIt

MOST_ROWS, MOST_COLUMNS, MOST_CELL = 500, 50, 500
MOST_CELLS = 500
MOST_OUTPUT = 20_000
MOST_MARKDOWN = 200_000
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class View(StrEnum):
    """Way in which the page shows a file."""

    IMAGE = "image"
    PDF = "pdf"
    TABLE = "table"
    MARKDOWN = "markdown"
    NOTEBOOK = "notebook"
    TEXT = "text"


_BY_ENDING = {
    **dict.fromkeys(("png", "jpg", "jpeg", "gif", "webp"), View.IMAGE),
    **dict.fromkeys(("csv", "tsv"), View.TABLE),
    **dict.fromkeys(("md", "markdown"), View.MARKDOWN),
    "ipynb": View.NOTEBOOK,
    "pdf": View.PDF,
}


def view_of(name: str) -> View:
    """Return how a file of this name is shown; as text if nothing else is known."""
    return _BY_ENDING.get(name.rpartition(".")[2].lower(), View.TEXT)


def image_type(start: bytes) -> str | None:
    """Return the media type of an image that browsers show without running anything, by its first
    bytes; the name of a file is not believed.
    """
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for sign, kind in IMAGES.items() if start.startswith(sign)), None)


@dataclass(frozen=True, slots=True)
class TableView:
    head: list[str]
    rows: list[list[str]]
    is_whole: bool


def table(text: str) -> TableView:
    """Return the first rows and columns of a CSV or TSV text; the separator is guessed."""
    try:
        dialect: Any = csv.Sniffer().sniff(text[:4096], delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel
    rows: list[list[str]] = []
    is_whole = True
    try:
        for row in csv.reader(io.StringIO(text, newline=""), dialect):
            if len(rows) > MOST_ROWS:
                is_whole = False
                break
            is_whole = is_whole and len(row) <= MOST_COLUMNS
            rows.append([cell[:MOST_CELL] for cell in row[:MOST_COLUMNS]])
    except csv.Error:
        is_whole = False
    return TableView(rows[0] if rows else [], rows[1:], is_whole)


def markdown(text: str, link: "Links") -> SafeString:
    """Return Markdown as HTML with HTML in it shown as text. Links lead to http(s), mail, and entries
    of the folder; images come from the folder alone. At most
    MOST_MARKDOWN characters, because tables take a thousand times their length.
    """
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")
    parser.validateLink = lambda url: link.target(url) is not None  # type: ignore[method-assign]
    tokens = parser.parse(text)
    for token in _all_tokens(tokens):
        if token.type == "link_open":
            token.attrs["href"] = link.target(str(token.attrs.get("href", ""))) or "#"
            token.attrs.update({"rel": "noopener noreferrer nofollow"})
        elif token.type == "image":
            source = link.image(str(token.attrs.get("src", "")))
            if source:
                token.attrs.update({"src": source, "loading": "lazy"})
            else:
                token.type, token.tag = "text", ""
        token.attrs = {name: value for name, value in token.attrs.items() if name in _KEPT}
    # Safe: the library escapes all text, HTML is off, and the attributes are those above.
    return SafeString(parser.renderer.render(tokens, parser.options, {}))


_KEPT = frozenset({"href", "rel", "src", "alt", "title", "loading", "start"})


def _all_tokens(tokens: list[Any]) -> Iterator[Any]:
    for token in tokens:
        yield token
        yield from token.children or ()


@dataclass(frozen=True, slots=True)
class Links:
    """Targets of the links in a file. `view_url` and `image_url` end with “path=”; `directory` is that of the
    file.
    """

    directory: tuple[str, ...]
    view_url: str
    image_url: str

    def target(self, text: str) -> str | None:
        """Return the address of a link, None for one that is left out."""
        try:
            parts = urlsplit(text.strip())
        except ValueError:
            return None
        if parts.scheme in {"http", "https", "mailto"}:
            return text
        if parts.scheme or parts.netloc or text.startswith(("//", "\\")):
            return None
        if not parts.path:
            return "#"
        return self._inside(parts.path, self.view_url)

    def image(self, text: str) -> str | None:
        try:
            parts = urlsplit(text.strip())
        except ValueError:
            return None
        if parts.scheme or parts.netloc or not parts.path:
            return None
        return self._inside(parts.path, self.image_url)

    def _inside(self, path: str, url: str) -> str | None:
        place = [] if path.startswith("/") else list(self.directory)
        for part in unquote(path).split("/"):
            if part == "..":
                if not place:
                    return None
                place.pop()
            elif part not in {"", "."}:
                place.append(part)
        return url + quote("/".join(place), safe="") if place else None


@dataclass(frozen=True, slots=True)
class Output:
    """Output of a cell: text, or an image as a data address."""

    text: str = ""
    image: str = ""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell of a notebook: `html` of Markdown, or `source` of code with its outputs."""

    html: SafeString | str
    source: str
    number: str
    outputs: list[Output]


@dataclass(frozen=True, slots=True)
class NotebookView:
    cells: list[Cell]
    language: str
    is_whole: bool


def notebook(text: str, link: Links) -> NotebookView | None:
    """Return the cells of a Jupyter notebook, None if it is none. Of outputs only text and PNG or JPEG
    images are taken; HTML, SVG and scripts are left out.
    """
    try:
        whole = json.loads(text)
        cells = whole["cells"]
        language = str(whole.get("metadata", {}).get("kernelspec", {}).get("display_name", ""))[:100]
        views = [_cell(cell, link) for cell in _whole_cells(cells[:MOST_CELLS])]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return NotebookView(views, language, len(views) == len(cells))


def _whole_cells(cells: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the cells before those whose Markdown would be more than MOST_MARKDOWN in all."""
    left = MOST_MARKDOWN
    for cell in cells:
        if isinstance(cell, dict):
            left -= len(_joined(cell.get("source"))) if cell.get("cell_type") == "markdown" else 0
            if left < 0:
                return
            yield cell


def _cell(cell: dict[str, Any], link: Links) -> Cell:
    source = _joined(cell.get("source"))
    if cell.get("cell_type") == "markdown":
        return Cell(markdown(source, link), "", "", [])
    outputs = [shown for each in cell.get("outputs") or [] if (shown := _output(each))]
    number = cell.get("execution_count")
    return Cell("", source, str(number) if isinstance(number, int) else " ", outputs)


def _output(output: Any) -> Output | None:
    if not isinstance(output, dict):
        return None
    kind = output.get("output_type")
    if kind == "stream":
        return Output(text=_plain(output.get("text")))
    if kind == "error":
        return Output(text=_plain("\n".join(map(str, output.get("traceback") or []))), is_error=True)
    data = output.get("data") or {}
    for media in ("image/png", "image/jpeg"):
        if media in data and (image := _image(_joined(data[media]))):
            return Output(image=image)
    if "text/plain" in data:
        return Output(text=_plain(data["text/plain"]))
    return None


def _image(text: str) -> str:
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return ""
    kind = image_type(content)
    return f"data:{kind};base64,{base64.b64encode(content).decode()}" if kind else ""


def _plain(value: Any) -> str:
    return _COLOURS.sub("", _joined(value))[:MOST_OUTPUT]


def _joined(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")
