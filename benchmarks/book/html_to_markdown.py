"""A report of hedgerow (report.html) as Markdown, with its figures as files beside it.

The report is what `hedgerow paper` and `hedgerow study` write; its page is taken as it is, so that the book says what
the reports say. Left out is what changes from one folding to the next: time, machine and versions of the folding.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from html.parser import HTMLParser

OF_THE_FOLDING = ("report versions", "report machine", "report time", "versions", "machine", "time")
HEADINGS = {"h1": "# ", "h2": "## ", "h3": "### "}


def markdown(html: str, figure: Callable[[str, str], str]) -> str:
    """The page; `figure(svg, alt)` keeps a figure and gives the address that the page links to.

    >>> print(markdown("<h2>A</h2><p>b <code>c</code></p><ul><li>d</li></ul>", lambda svg, alt: ""))
    ## A
    <BLANKLINE>
    b `c`
    <BLANKLINE>
    - d
    <BLANKLINE>
    """
    page = _Page(figure)
    page.feed(html)
    return _joined(page.parts)


def _joined(parts: list[str]) -> str:
    """Paragraphs apart from each other, items of a list one below the other."""
    text = ""
    for part in filter(str.strip, parts):
        close = text.startswith("- ", text.rfind("\n", 0, len(text) - 1) + 1) and part.startswith("- ")
        text += ("\n" if text and not close else "") + part + "\n"
    return text


class _Page(HTMLParser):
    """Collects the parts of a page in their order."""

    def __init__(self, figure: Callable[[str, str], str]) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._figure = figure
        self._text: str | None = None  # of the element that is open
        self._rows: list[list[str]] = []
        self._facts = self._skip = False

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in given}
        if tag in ("head", "nav", "footer"):
            self._skip = True
        elif tag == "table":
            self._rows, self._facts = [], "facts" in attributes.get("class", "")
        elif tag == "tr":
            self._rows.append([])
        elif tag in (*HEADINGS, "p", "li", "figcaption", "summary", "th", "td"):
            self._text = ""
        elif tag == "code" and self._text is not None:
            self._text += "`"
        elif tag == "small" and self._text:
            self._text += " ["
        elif tag == "img":
            svg = base64.b64decode(attributes["src"].partition("base64,")[2]).decode()
            self.parts.append(f"![{attributes['alt']}]({self._figure(svg, attributes['alt'])})")

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("head", "nav", "footer"):
            self._skip = False
        elif tag == "code" and self._text is not None:
            self._text += "`"
        elif tag == "small" and self._text is not None:
            self._text += "]"
        elif tag == "table":
            self.parts.append(_facts(self._rows) if self._facts else _table(self._rows))
        elif self._text is not None and tag in (*HEADINGS, "p", "li", "figcaption", "summary", "th", "td"):
            self._close(tag, " ".join(self._text.split()))

    def _close(self, tag: str, text: str) -> None:
        self._text = None
        if tag in ("th", "td"):
            self._rows[-1].append(text.replace("|", "\\|"))
        elif not self._skip and text:
            before = HEADINGS.get(tag, {"li": "- ", "summary": "### "}.get(tag, ""))
            self.parts.append(f"*{text}*" if tag == "figcaption" else before + _safe(text))


def _safe(text: str) -> str:
    """Words that Markdown would take for markup, as they are; what stands between backticks is left alone."""
    pieces = text.split("`")
    pieces[::2] = [piece.replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_") for piece in pieces[::2]]
    return "`".join(pieces)


def _table(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _facts(rows: list[list[str]]) -> str:
    kept = [row for row in rows if row[0] not in OF_THE_FOLDING]
    return "\n".join(["| what | value |", "| --- | --- |", *(f"| {row[0]} | {row[1]} |" for row in kept)])
