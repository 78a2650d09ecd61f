"""What one looks at first: the demonstration, the methods, the data sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import DataDir, Jobs, Orders


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the figures and the results.")] = Path(
        "hedgerow-demo"
    ),
    orders: Orders = 10,
    target: Annotated[str, typer.Option(help="Domain that streams; the others are sources.")] = "shifted",
    jobs: Jobs = -1,
) -> None:
    """All methods side by side on embedded digits: a table, three figures and a report."""
    from hedgerow.cli import terminal
    from hedgerow.lab.demo import demo as run_demo

    with terminal.progress() as progress:
        result = run_demo(out, orders, target, jobs, progress)
    console = terminal.console(sys.stdout)
    terminal.print_table(result.table.header, result.table.texts, numbers=True, best=result.table.best)
    console.print(result.table.note, style="dim")
    console.print("Report:", style="bold")
    print(result.report)


def methods(
    readings: Annotated[bool, typer.Option("--readings", help="Show the presets of the options instead.")] = False,
) -> None:
    """The methods and what they are made of."""
    from hedgerow.cli import terminal
    from hedgerow.methods import METHODS, as_table

    if readings:
        rows = as_table()
        terminal.print_table(list(rows[0]), [[_words(value) for value in row.values()] for row in rows])
    else:
        header = ["name", "title", "spaces", "frozen experts", "online from", "mixer", "refresh", "reference"]
        parts = [(name, METHODS[name]) for name in METHODS]
        terminal.print_table(header, [(name, r.title, *r.row().values(), r.reference) for name, r in parts])


def data(
    data_dir: DataDir = None,
) -> None:
    """The data sets that load() knows, and where each one is."""
    from hedgerow.cli import terminal
    from hedgerow.data import available

    header = ["name", "domains", "rows", "features", "classes", "where"]
    rows = [(a.name, ", ".join(a.domains), a.rows, a.features, a.classes, a.where) for a in available(data_dir)]
    terminal.print_table(header, rows)


def _words(value: object) -> str:
    if value is None:
        return "the method's own"
    return " + ".join(map(str, value)) if isinstance(value, tuple) else str(value)
