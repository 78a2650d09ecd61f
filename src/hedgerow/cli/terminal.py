"""What people see of a command: colours and live lines on a terminal, plain lines everywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_EVERY = 5.0  # seconds between plain progress lines
WIDE = 240  # a pipe has no width: never break a line there


def plain(stream: TextIO) -> bool:
    """Whether this stream gets no control characters at all: a pipe, a file, NO_COLOR, a dumb terminal."""
    return (
        not stream.isatty() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    )


def console(stream: TextIO) -> Console:
    """A console for a stream, coloured only where that helps."""
    from rich.console import Console

    if plain(stream):
        return Console(
            file=stream, force_terminal=False, color_system=None, width=WIDE, highlight=False
        )
    return Console(file=stream, highlight=False)


def printable(text: object) -> str:
    r"""A text without control characters, which could change what a terminal shows: they are written as escapes.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode()
        for c in str(text)
    )


def _safe(text: object) -> str:
    from rich.markup import escape

    return escape(printable(text))


def print_line(text: str, style: str | None = None) -> None:
    """A line on stdout."""
    console(sys.stdout).print(printable(text), style=style, soft_wrap=True, markup=False)


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    numbers: bool = False,
    best: frozenset[tuple[int, int]] = frozenset(),
) -> None:
    """A table on stdout; `numbers` aligns all columns but the first to the right, `best` cells are green or starred."""
    from rich.table import Table

    mark = "{} *" if plain(sys.stdout) else "[bold green]{}[/]"
    made = Table(box=None, header_style="bold", pad_edge=False)
    for j, title in enumerate(header):
        made.add_column(_safe(title), justify="right" if numbers and j else "left", overflow="fold")
    for i, row in enumerate(rows):
        cells = (_safe(cell) for cell in row)
        made.add_row(
            *(mark.format(cell) if (i, j) in best else cell for j, cell in enumerate(cells))
        )
    console(sys.stdout).print(made)


@cache
def _stderr() -> Console:
    """One console for all of stderr: it moves a live line out of the way of a printed one."""
    return console(sys.stderr)


def note(text: str) -> None:
    """A line on stderr."""
    _stderr().print(_safe(text), soft_wrap=True)


def error(text: str) -> None:
    """An error on stderr."""
    _stderr().print(f"[bold red]error:[/] {_safe(text)}", soft_wrap=True)


@contextmanager
def progress() -> Iterator[Callable[[int, int, str], None]]:
    """A callback (done, total, what): a bar with the time so far on a terminal, a line now and then elsewhere.

    No time left is shown: runs differ a hundredfold in length, and an estimate would rise as often as it falls.
    """
    if plain(sys.stderr):
        began = time.monotonic()
        tell = _now_and_then()

        def line(done: int, total: int, what: str) -> None:
            passed = time.monotonic() - began
            tell(lambda: f"{done}/{total} done after {passed:.0f} s ({what})", done >= total)

        yield line
        return
    from rich import progress as bars

    columns = (
        bars.BarColumn(), bars.MofNCompleteColumn(), bars.TextColumn("{task.description}"), bars.TimeElapsedColumn(),
    )  # fmt: skip
    with bars.Progress(*columns, console=_stderr(), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=_safe(what)
        )


def _now_and_then() -> Callable[..., None]:
    """A callback that takes a function for a text, and prints it every few seconds, or when it must."""
    last = time.monotonic()

    def tell(text: Callable[[], str], must: bool = False) -> None:
        nonlocal last
        if must or time.monotonic() - last >= PLAIN_EVERY:
            last = time.monotonic()
            note(text())

    return tell


@contextmanager
def status(live: bool) -> Iterator[Callable[[Callable[[], str]], None]]:
    """A callback that takes a function for the text: a live line on a terminal, elsewhere a plain one now and then.

    The text is only made when it is shown, so that it costs a stream in a pipe nothing.
    """
    if not live or plain(sys.stderr):
        yield _now_and_then()
        return
    with _stderr().status("waiting for rows") as line:
        # At every row, not now and then: while a live stream pauses, the line must show its last row.
        yield lambda text: line.update(_safe(text()))
