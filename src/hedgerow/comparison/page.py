"""A report: sections of text, tables and figures, as one page that needs nothing else, as Markdown, and as files.

What stands in a section is text (a paragraph), a list of sentences, a mapping of names to values, a `Table`, a
`Figure`, or one of the small classes below; templates/ turns each into HTML and Markdown.
"""

from __future__ import annotations

import base64
import io
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import hedgerow
from hedgerow.comparison.tables import Table
from hedgerow.comparison.words import Words, render, templates
from hedgerow.core.errors import require
from hedgerow.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

DPI = 150
FILE = "report.html"
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
THEMES = {
    "light": {"text": "#1f2328", "paper": "#ffffff", "grid": "#e3e6ea"},
    "dark": {"text": "#e6e9ed", "paper": "#16191d", "grid": "#333a42"},
}

Part = Any  # what can stand in a section: see above


@dataclass(frozen=True)
class Figure:
    """A figure of matplotlib, what it shows, and what else stands below it."""

    name: str
    drawing: Drawing
    shows: str
    more: str = ""
    kind: ClassVar[str] = "figure"

    @property
    def caption(self) -> str:
        """All that stands below it."""
        return f"{self.shows} {self.more}".strip()

    def save(self, directory: Path) -> None:
        """As PNG and SVG."""
        directory.mkdir(parents=True, exist_ok=True)
        self.drawing.draw_without_rendering()
        self.drawing.set_layout_engine(
            "none"
        )  # laid out once: each of the two files would do it twice
        self.drawing.savefig(directory / f"{self.name}.png", dpi=DPI, bbox_inches="tight")
        write_whole(directory / f"{self.name}.svg", self.svg.encode())

    @property
    def svg(self) -> str:
        """As SVG, letters drawn as paths: it looks the same where the font is missing, and the same in every run."""
        text = io.StringIO()
        with require("matplotlib", "lab").rc_context({"svg.hashsalt": "hedgerow"}):
            self.drawing.savefig(
                text, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None}
            )
        return text.getvalue()

    @property
    def inline(self) -> dict[str, str]:
        """Addresses with the figure in them; the themes differ in three colours, so nothing need be drawn again."""
        light = self.svg
        images = {}
        for theme, colours in THEMES.items():
            text = light
            for name, colour in colours.items():
                text = text.replace(THEMES["light"][name], colour)
            images[theme] = f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}"
        return images


@dataclass(frozen=True)
class Missing:
    """What a part would show, and the command that makes it."""

    what: str
    command: str
    kind: ClassVar[str] = "missing"


@dataclass(frozen=True)
class Beside:
    """Parts beside each other where there is room, else one below the other."""

    parts: Sequence[Part]
    kind: ClassVar[str] = "beside"


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; `anchor` is its name in links."""

    title: str
    parts: Sequence[Part]
    anchor: str = ""


def parts_of(sections: Sequence[Section]) -> list[Part]:
    """What stands in sections, one after the other, also what stands beside each other."""
    every = [part for section in sections for part in section.parts]
    return [
        inner for part in every for inner in (part.parts if isinstance(part, Beside) else [part])
    ]


@dataclass(frozen=True)
class Report:
    """A page: the verdict first, an introduction with links, sections, and at the end what was run."""

    title: str
    verdict: str
    sections: Sequence[Section]
    facts: Mapping[str, str]
    about: str = ""
    appendix: Sequence[Part] = field(default_factory=tuple)  # under what was run

    def html(self) -> str:
        """As a page with everything in it."""
        return render("page.html", report=self, made=circumstances(), version=hedgerow.__version__)

    def markdown(self) -> str:
        """As Markdown, with figures as files beside it; without what changes from one making to the next."""
        return render("page.md", report=self, parts=[])

    def save(self, out: Path) -> Path:
        """The page, and every table and figure as files of their own; the path of the page."""
        for part in (*parts_of(self.sections), *self.appendix):
            if isinstance(part, Table | Figure):
                part.save(out / f"{part.kind}s")
        write_whole(out / "report.md", self.markdown().encode())
        write_whole(out / FILE, self.html().encode())
        return (out / FILE).resolve()


def figure(texts: Words, kind: str, drawing: Drawing, name: str = "", **words: Any) -> Figure:
    """A figure whose caption is the text of its kind, which is its name as well."""
    return Figure(name or kind, drawing, **texts.caption(kind, **words))


def fragment(part: Part) -> str:
    """A part of a section as HTML, for notebooks.

    >>> fragment("It rains.").strip()
    '<p>It rains.</p>'
    """
    return str(templates().get_template("parts.html").module.show(part))


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a number depends on.

    >>> list(versions())
    ['python', 'numpy', 'scipy', 'scikit-learn', 'numba', 'hedgerow']
    """
    numbers = {package: version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **numbers, "hedgerow": hedgerow.__version__}


def circumstances() -> dict[str, str]:
    """Versions, machine and time, for the end of a report."""
    numbers = versions() | {"matplotlib": version("matplotlib")}
    return {
        "versions": ", ".join(f"{package} {number}" for package, number in numbers.items()),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "time": datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
    }


def commit() -> str:
    """The commit of the folder one works in, and whether something in it was changed since; empty outside of git."""
    words = ["git", "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty= and changes"]
    try:
        return subprocess.run(
            words, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
