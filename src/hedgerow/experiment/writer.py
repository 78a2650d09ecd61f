"""Tables and figures of a report: made into parts of its page, and saved as files of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from hedgerow.evaluate import plots
from hedgerow.experiment.page import Picture, write
from hedgerow.experiment.summaries import RunIndex
from hedgerow.experiment.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150
FILE = "report.html"
R = TypeVar("R", bound=RunIndex)


@dataclass
class Writer(Generic[R]):
    """Turns tables and figures into parts of the page, and saves each of them as files too."""

    runs: R
    out: Path

    def table(self, table: Table) -> Table:
        """A table, saved as CSV, Markdown and LaTeX."""
        table.save(self.out / "tables")
        return table

    def picture(self, name: str, figure: Figure, alt: str, caption: str) -> Picture:
        """A figure, saved as PNG and SVG."""
        folder = self.out / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once: each of the two files would do it twice
        figure.savefig(folder / f"{name}.png", dpi=DPI, bbox_inches="tight")
        text = plots.svg(figure)
        write(folder / f"{name}.svg", text)
        return Picture(text, plots.darkened(text), alt, caption)
