"""A report: sections of text, tables and figures, as one page that needs nothing else, as Markdown, and as files.

What stands in a section is text (a paragraph), a list of sentences, a mapping of names to values, a `Table`, a
`Figure`, or one of the small classes below; templates/ turns each into HTML and Markdown.
"""

from __future__ import annotations

import base64
import io
import os
import platform
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import hedgerow
from hedgerow.core.errors import require
from hedgerow.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

DPI = 150
FILE = "report.html"
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
TEX = {char: "\\" + char for char in "%&_#${}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "†": r"$^\dagger$",
    "−": "$-$", "–": "--", "µ": r"$\mu$", "≤": r"$\leq$", "λ": r"$\lambda$", "β": r"$\beta$", "τ": r"$\tau$",
    "<": "$<$", ">": "$>$",
}  # fmt: skip
THEMES = {
    "light": {"text": "#1f2328", "paper": "#ffffff", "grid": "#e3e6ea"},
    "dark": {"text": "#e6e9ed", "paper": "#16191d", "grid": "#333a42"},
}

Part = Any  # what can stand in a section: see above


@dataclass(frozen=True)
class Value:
    """A cell: its text, a second line below it (the published number), and a mark ("best", "far" or both)."""

    text: str
    below: str = ""
    mark: str = ""

    @property
    def first(self) -> str:
        """The first line; a cell that is far from the published one has a dagger."""
        return self.text + ("†" if "far" in self.mark else "")

    @property
    def plain(self) -> str:
        """In one line.

        >>> Value("45.3 ± 1.3", "40.1", "far").plain
        '45.3 ± 1.3† [40.1]'
        """
        return self.first + (f" [{self.below}]" if self.below else "")


def lowest(numbers: Iterable[float | None], texts: Iterable[object], form: str = ".1f") -> list[Value]:
    """Texts of a row or column of which the lowest number, in the form shown, is marked; a dash where there is none.

    >>> [(value.text, value.mark) for value in lowest([2.04, None, 2.0], ["2.0 ± 1", "", "2.0"])]
    [('2.0 ± 1', 'best'), ('–', ''), ('2.0', 'best')]
    """
    shown = [None if x is None or x != x else float(f"{x:{form}}") for x in numbers]
    least = min((x for x in shown if x is not None), default=None)
    pairs = zip(shown, texts, strict=True)
    return [Value("–") if x is None else Value(str(text), mark="best" if x == least else "") for x, text in pairs]


@dataclass(frozen=True)
class Table:
    """A named table. `records` are its numbers, one a line, for the CSV file; without them it has the cells."""

    name: str
    title: str
    header: Sequence[str]
    cells: InitVar[Iterable[Sequence[object]]]  # a Value, or what can be printed
    note: str = ""
    records: Sequence[Mapping[str, Any]] = ()
    folded: bool = False  # closed at first in the page: a long table
    rows: list[list[Value]] = field(init=False)
    kind: ClassVar[str] = "table"

    def __post_init__(self, cells: Iterable[Sequence[object]]) -> None:
        rows = [[cell if isinstance(cell, Value) else Value(str(cell)) for cell in row] for row in cells]
        object.__setattr__(self, "rows", rows)

    @property
    def texts(self) -> list[list[str]]:
        """The cells' own texts, for a terminal."""
        return [[value.text for value in row] for row in self.rows]

    @property
    def best(self) -> frozenset[tuple[int, int]]:
        """The (row, column) places of the cells that are marked as the best."""
        return frozenset((i, j) for i, row in enumerate(self.rows) for j, v in enumerate(row) if "best" in v.mark)

    @property
    def plain(self) -> list[list[str]]:
        """The cells in one line each."""
        return [[value.plain for value in row] for row in self.rows]

    def csv(self) -> str:
        """The records, one in each line; without any, the cells as they are shown.

        >>> print(Table("t", "T", ["task", "pa"], [["dslr", 50]]).csv().strip())
        task,pa
        dslr,50
        """
        pandas = require("pandas", "lab")
        frame = pandas.DataFrame(list(self.records) or self.plain, columns=None if self.records else self.header)
        return str(frame.to_csv(index=False, lineterminator="\n"))

    def latex(self) -> str:
        r"""As a LaTeX table, the best in bold, no wider than a line; needs `\usepackage{booktabs,graphicx}`.

        >>> r"dslr & 50 \\" in Table("t", "T", ["task", "pa"], [["dslr", 50]]).latex()
        True
        """
        return render("table.tex", table=self)

    def save(self, directory: Path) -> None:
        """As CSV, Markdown and LaTeX."""
        directory.mkdir(parents=True, exist_ok=True)
        for suffix, text in (("csv", self.csv()), ("md", render("page.md", parts=[self])), ("tex", self.latex())):
            write_whole(directory / f"{self.name}.{suffix}", text.encode())


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
        self.drawing.set_layout_engine("none")  # laid out once: each of the two files would do it twice
        self.drawing.savefig(directory / f"{self.name}.png", dpi=DPI, bbox_inches="tight")
        write_whole(directory / f"{self.name}.svg", self.svg.encode())

    @property
    def svg(self) -> str:
        """As SVG, letters drawn as paths: it looks the same where the font is missing, and the same in every run."""
        text = io.StringIO()
        with require("matplotlib", "lab").rc_context({"svg.hashsalt": "hedgerow"}):
            self.drawing.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
        return text.getvalue()

    @property
    def inline(self) -> dict[str, str]:
        """Addresses with the figure in them; the themes differ in three colours, so nothing need be drawn again."""
        light, images = self.svg, {}
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
    return [inner for part in every for inner in (part.parts if isinstance(part, Beside) else [part])]


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


def table(
    kind: str, header: Sequence[str], cells: Iterable[Sequence[object]], records: Sequence[Mapping[str, Any]] = (),
    name: str = "", folded: bool = False, **words: Any,
) -> Table:  # fmt: skip
    """A table whose title and note stand in templates/words.toml under its kind, which is its name as well.

    >>> table("change", ["method"], [["PA"]], task="dslr").title
    'Around the abrupt change, dslr'
    """
    text = caption(kind, **words)
    return Table(name or kind, text["title"], header, cells, text.get("note", ""), records, folded)


def figure(kind: str, drawing: Drawing, name: str = "", **words: Any) -> Figure:
    """A figure whose caption stands in templates/words.toml under its kind, which is its name as well."""
    return Figure(name or kind, drawing, **caption(kind, **words))


def text(kind: str, **words: Any) -> str:
    """A sentence of templates/words.toml, filled in.

    >>> text("one-method")
    'Only one method was run: there is nothing to compare it with.'
    """
    return caption(kind, **words)["text"]


def caption(kind: str, **words: Any) -> dict[str, str]:
    """All texts of this kind, filled in; a line that begins with punctuation belongs to the one before it."""
    texts = {part: _templates().from_string(text).render(**words) for part, text in _words()[kind].items()}
    return {part: re.sub(r" (?=[.,;:] )| (?=[.,;:]$)", "", " ".join(text.split())) for part, text in texts.items()}


@cache
def _words() -> dict[str, dict[str, str]]:
    return tomllib.loads((resources.files("hedgerow.lab") / "templates/words.toml").read_text(encoding="utf-8"))


@cache
def _templates() -> Any:
    jinja2 = require("jinja2", "lab")
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("hedgerow.lab"), autoescape=jinja2.select_autoescape(default_for_string=False),
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    made.filters |= {"md": _markdown, "tex": lambda text: "".join(TEX.get(char, char) for char in str(text))}
    made.filters |= {"one": "{:.1f}".format, "two": "{:.2f}".format, "signed": signed, "chance": chance}
    return made


def _markdown(text: object) -> str:
    """Words that Markdown would take for markup, as they are."""
    return str(text).replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_")


def render(template: str, **words: Any) -> str:
    """A template of this package, filled."""
    return str(_templates().get_template(template).render(**words))


def fragment(part: Part) -> str:
    """A part of a section as HTML, for notebooks.

    >>> fragment("It rains.").strip()
    '<p>It rains.</p>'
    """
    return str(_templates().get_template("parts.html").module.show(part))


# -- words and circumstances ------------------------------------------------------------------------------------


def paragraph(sentences: Iterable[str]) -> str:
    """The sentences that say something.

    >>> paragraph(["It rains.", "", "It pours."])
    'It rains. It pours.'
    """
    return " ".join(sentence for sentence in sentences if sentence)


def count(number: int, noun: str, several: str = "") -> str:
    """A number with its noun; `several` is the plural of a noun that does not just take an s.

    >>> count(1, "order"), count(2, "order"), count(2, "study", "studies")
    ('1 order', '2 orders', '2 studies')
    """
    return f"{number} " + (noun if number == 1 else several or f"{noun}s")


def number(x: float, form: str) -> str:
    """A number in this form; a dash where there is none.

    >>> number(1.234, ".1f"), number(float("nan"), ".1f")
    ('1.2', '–')
    """
    return "–" if x != x else f"{x:{form}}"


def signed(points: float) -> str:
    """A difference in points; a dash where there is none.

    >>> signed(-1.234), signed(float("nan"))
    ('−1.23', '–')
    """
    return number(points, "+.2f").replace("-", "−")


def chance(p: float) -> str:
    """A p-value.

    >>> chance(0.034), chance(0.00001), chance(float("nan"))
    ('p = 0.03', 'p < 0.0001', 'p –')
    """
    return "p –" if p != p else "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}" if p < 0.01 else f"p = {p:.2f}"


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
        return subprocess.run(words, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
