"""Tables: cells with their marks, as CSV, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from hedgerow.comparison.words import Words, render
from hedgerow.core.errors import require
from hedgerow.files import write_whole


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


def lowest(
    numbers: Iterable[float | None], texts: Iterable[object], form: str = ".1f"
) -> list[Value]:
    """Texts of a row or column of which the lowest number, in the form shown, is marked; a dash where there is none.

    >>> [(value.text, value.mark) for value in lowest([2.04, None, 2.0], ["2.0 ± 1", "", "2.0"])]
    [('2.0 ± 1', 'best'), ('–', ''), ('2.0', 'best')]
    """
    shown = [None if x is None or x != x else float(f"{x:{form}}") for x in numbers]
    least = min((x for x in shown if x is not None), default=None)
    pairs = zip(shown, texts, strict=True)
    return [
        Value("–") if x is None else Value(str(text), mark="best" if x == least else "")
        for x, text in pairs
    ]


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
        rows = [
            [cell if isinstance(cell, Value) else Value(str(cell)) for cell in row] for row in cells
        ]
        object.__setattr__(self, "rows", rows)

    @property
    def texts(self) -> list[list[str]]:
        """The cells' own texts, for a terminal."""
        return [[value.text for value in row] for row in self.rows]

    @property
    def best(self) -> frozenset[tuple[int, int]]:
        """The (row, column) places of the cells that are marked as the best."""
        return frozenset(
            (i, j) for i, row in enumerate(self.rows) for j, v in enumerate(row) if "best" in v.mark
        )

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
        frame = pandas.DataFrame(
            list(self.records) or self.plain, columns=None if self.records else self.header
        )
        return str(frame.to_csv(index=False, lineterminator="\n"))

    def markdown(self) -> str:
        """As Markdown.

        >>> Table("t", "", ["task", "pa"], [["dslr", 50]]).markdown().splitlines()
        ['| task | pa |', '| --- | ---: |', '| dslr | 50 |']
        """
        return render("page.md", parts=[self]).strip() + "\n"

    def latex(self) -> str:
        r"""As a LaTeX table, the best in bold, no wider than a line; needs `\usepackage{booktabs,graphicx}`.

        >>> r"dslr & 50 \\" in Table("t", "T", ["task", "pa"], [["dslr", 50]]).latex()
        True
        """
        return render("table.tex", table=self)

    def save(self, directory: Path) -> None:
        """As CSV, Markdown and LaTeX."""
        directory.mkdir(parents=True, exist_ok=True)
        for suffix, text in (("csv", self.csv()), ("md", self.markdown()), ("tex", self.latex())):
            write_whole(directory / f"{self.name}.{suffix}", text.encode())


def table(
    texts: Words,
    kind: str,
    header: Sequence[str],
    cells: Iterable[Sequence[object]],
    records: Sequence[Mapping[str, Any]] = (),
    name: str = "",
    folded: bool = False,
    **words: Any,
) -> Table:
    """A table whose title and note are the texts of its kind, which is its name as well.

    >>> table(Words("hedgerow.comparison"), "sources", ["source"], [["thin"]], rmse=False).title
    'What each source was worth'
    """
    caption = texts.caption(kind, **words)
    return Table(
        name or kind, caption["title"], header, cells, caption.get("note", ""), records, folded
    )
