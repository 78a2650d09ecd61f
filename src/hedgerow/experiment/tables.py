"""A table of the report in all its forms: HTML in the page, CSV, Markdown and LaTeX as files."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from hedgerow.experiment.page import write


@dataclass(frozen=True)
class Value:
    """A cell: its text, a second line below it (the published number), and a mark ("best", "far" or both)."""

    text: str
    below: str = ""
    mark: str = ""

    def plain(self) -> str:
        """In one line; a cell that is far from the published one has a dagger.

        >>> Value("45.3 ± 1.3", "40.1", "far").plain()
        '45.3 ± 1.3† [40.1]'
        """
        return self.text + ("†" if "far" in self.mark else "") + (f" [{self.below}]" if self.below else "")

    def html(self) -> str:
        """As a table cell."""
        below = f"<small>{escape(self.below)}</small>" if self.below else ""
        mark = f' class="{self.mark}"' if self.mark else ""
        return f"<td{mark}>{escape(self.text)}{'†' if 'far' in self.mark else ''}{below}</td>"


@dataclass(frozen=True)
class Table:
    """A named table. `records` are its numbers, one a line, for the CSV file; without them it has the cells."""

    name: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Value]]
    note: str = ""
    records: Sequence[Mapping[str, Any]] = ()
    folded: bool = False  # closed at first in the page: a long table

    @property
    def texts(self) -> list[list[str]]:
        """The cells' own texts, for a terminal."""
        return [[value.text for value in row] for row in self.rows]

    @property
    def best(self) -> frozenset[tuple[int, int]]:
        """The (row, column) places of the cells that are marked as the best."""
        return frozenset((i, j) for i, row in enumerate(self.rows) for j, v in enumerate(row) if "best" in v.mark)

    def html(self) -> str:
        """As part of the page."""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.header)
        body = "\n".join("<tr>" + "".join(value.html() for value in row) + "</tr>" for row in self.rows)
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        table = (
            f'<div class="scroll"><table class="tight" id="{escape(self.name)}"><thead><tr>{head}</tr></thead>\n'
            f"<tbody>{body}</tbody></table></div>{note}"
        )
        if self.folded:
            return f"<details><summary>{escape(self.title)}</summary>{table}</details>"
        return (f"<h3>{escape(self.title)}</h3>" if self.title else "") + table

    def csv(self) -> str:
        """The records, one in each line; without any, the cells as they are shown.

        >>> print(Table("t", "T", ["task", "pa"], [[Value("dslr"), Value("50")]]).csv().strip())
        task,pa
        dslr,50
        """
        text = io.StringIO()
        if self.records:
            writer = csv.DictWriter(text, list(self.records[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.records)
        else:
            csv.writer(text, lineterminator="\n").writerows([self.header, *_plain(self.rows)])
        return text.getvalue()

    def markdown(self) -> str:
        """As a Markdown table.

        >>> print(Table("t", "T", ["task", "pa"], [[Value("dslr"), Value("50")]]).markdown().splitlines()[-1])
        | dslr | 50 |
        """
        lines = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *_plain(self.rows)]
        body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return f"**{self.title}**\n\n{body}\n" + (f"\n{self.note}\n" if self.note else "")

    def latex(self) -> str:
        r"""As a LaTeX table; needs `\usepackage{booktabs}`.

        >>> r"dslr & 50 \\" in Table("t", "T", ["task", "pa"], [[Value("dslr"), Value("50")]]).latex()
        True
        """
        head = " & ".join(map(_tex, self.header))
        body = "\n".join(" & ".join(map(_tex, row)) + r" \\" for row in _plain(self.rows))
        return (
            "\\begin{table}\n\\centering\n\\caption{" + _tex(self.title) + "}\n"
            "\\begin{tabular}{l" + "r" * (len(self.header) - 1) + "}\n"
            f"\\toprule\n{head} \\\\\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
            + (f"\\par\\smallskip\\footnotesize {_tex(self.note)}\n" if self.note else "")
            + "\\end{table}\n"
        )

    def save(self, directory: Path) -> None:
        """All three files."""
        directory.mkdir(parents=True, exist_ok=True)
        for suffix, text in (("csv", self.csv()), ("md", self.markdown()), ("tex", self.latex())):
            write(directory / f"{self.name}.{suffix}", text)


@dataclass(frozen=True)
class Findings:
    """Sentences computed from the rows, as a list."""

    sentences: Sequence[str]

    def html(self) -> str:
        """As HTML."""
        return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in self.sentences) + "</ul>"


@dataclass(frozen=True)
class Missing:
    """What a part would show and how to get it."""

    what: str
    command: str

    def html(self) -> str:
        """As HTML."""
        return f'<p class="missing">{escape(self.what)} Run <code>{escape(self.command)}</code>.</p>'


def values(cells: Sequence[object]) -> list[Value]:
    """Plain cells.

    >>> values(["a", 1])
    [Value(text='a', below='', mark=''), Value(text='1', below='', mark='')]
    """
    return [cell if isinstance(cell, Value) else Value(str(cell)) for cell in cells]


def signed(points: float) -> str:
    """A difference in points; a dash where there is none.

    >>> signed(-1.234), signed(float("nan"))
    ('−1.23', '–')
    """
    return "–" if points != points else f"{points:+.2f}".replace("-", "−")


def chance(p: float) -> str:
    """A p-value.

    >>> chance(0.034), chance(0.00001), chance(float("nan"))
    ('p = 0.03', 'p < 0.0001', 'p –')
    """
    return "p –" if p != p else "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}" if p < 0.01 else f"p = {p:.2f}"


TEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "−": "$-$",
    "–": "--",
    "µ": r"$\mu$",
    "≤": r"$\leq$",
}
TEX |= {char: "\\" + char for char in "%&_#${}"} | {
    "λ": r"$\lambda$",
    "β": r"$\beta$",
    "τ": r"$\tau$",
    "<": "$<$",
    ">": "$>$",
}


def _tex(text: str) -> str:
    return "".join(TEX.get(char, char) for char in text)


def _plain(rows: Sequence[Sequence[Value]]) -> list[list[str]]:
    return [[value.plain() for value in row] for row in rows]
