"""The paper's tables and figures on its nine tasks, published numbers beside ours, and what explains the rest.

python -m reproduction                  run what is asked for, and write the report
python -m reproduction report FOLDER    the report on a folder that this command wrote to; nothing is run
python -m reproduction study NAME       streams as they are: `python -m reproduction study --help`
python -m reproduction book             the book of results: `python -m reproduction book --help`
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hedgerow.cli import terminal
from hedgerow.comparison.runner import INTERRUPTED, Folder, Tell
from hedgerow.core.errors import HedgerowError
from reproduction import book, paper, study
from reproduction.tasks import OwnFiles

PROGRAM = "python -m reproduction"
SHOWN = "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"  # the methods of a study that names none
WHAT = "table,curves,discrepancy,bound,stats,time"


def main(words: Sequence[str]) -> int:
    """Run the program; the exit code."""
    commands = {"report": _report, "study": _study, "book": book.main}
    try:
        if words and words[0] in commands:
            return commands[words[0]](words[1:]) or 0
        return _paper(words)
    except HedgerowError as error:
        terminal.error(str(error))
        return 2
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        terminal.error(f"the system refused: {error.strerror or error}{where}")
        return 1


def _paper(words: Sequence[str]) -> int:
    parser = _parser("", __doc__ or "", "paper")
    names = ",".join(paper.TASKS)
    parser.add_argument("--tasks", default="all", help=f"all, or names joined by commas: {names}")
    parser.add_argument(
        "--methods", default="all", help="names joined by commas; all: the paper's seven and ours"
    )
    parser.add_argument("--trials", type=int, default=20, help="orders of each stream")
    parser.add_argument(
        "--splits",
        type=int,
        default=1,
        help="splits into unlabelled rows and stream, for the table",
    )
    parser.add_argument(
        "--reading",
        default="table",
        help="table, authors or paper: see `hedgerow methods --readings`",
    )
    parts = ", ".join(paper.PARTS)
    parser.add_argument(
        "--what", default=WHAT, help=f"parts of the report, joined by commas, or all: {parts}"
    )
    given = parser.parse_args(words)
    with terminal.progress() as tell:
        folder = _folder(given, [*words], tell)
        report = paper.run(
            folder,
            given.tasks,
            given.methods,
            given.trials,
            given.splits,
            given.reading,
            given.what,
            given.data_dir,
        )
    if report is None:
        return INTERRUPTED
    print(report)
    return 0


def _report(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} report", description="The report on a folder; nothing is run."
    )
    parser.add_argument("folder", type=Path, help=f"that `{PROGRAM}` wrote to")
    print(paper.report(parser.parse_args(words).folder, terminal.note))
    return 0


def _study(words: Sequence[str]) -> int:
    text = "Streams as they are: labels late or missing, new classes, drift, imbalance, bad sources; the curve of each."
    parser = _parser(" study", text, "study")
    parser.add_argument(
        "name", nargs="?", default="", help="which study, or all; --list names them"
    )
    parser.add_argument("--data", default="digits", help=f"one of {', '.join(study.TARGETS)}")
    parser.add_argument(
        "--domain",
        type=Path,
        action="append",
        help="instead of --data: your own labelled files, once for each domain",
    )
    parser.add_argument("--label", help="the label column of your files")
    parser.add_argument(
        "--target", help="domain that streams, or several joined by commas; the others are sources"
    )
    parser.add_argument(
        "--methods", default=SHOWN, help="names joined by commas, see `hedgerow methods`"
    )
    parser.add_argument("--orders", type=int, default=5, help="orders of the stream")
    parser.add_argument("--list", action="store_true", help="name the studies; nothing is run")
    given = parser.parse_args(words)
    if given.list:
        terminal.print_table(["name", "what it is about", "strengths or kinds"], study.listed())
        return 0
    data = OwnFiles.of(given.domain, given.label) if given.domain else given.data
    with terminal.progress() as tell:
        folder = _folder(given, ["study", *words], tell)
        report = study.run(
            folder, given.name, data, given.target, given.methods, given.orders, given.data_dir
        )
    if report is None:
        return INTERRUPTED
    for table in study.tables(given.out, given.name):
        terminal.print_line(table.title, style="bold")
        terminal.print_table(table.header, table.texts, numbers=True, best=table.best)
    print(report)
    return 0


def _parser(command: str, text: str, name: str) -> argparse.ArgumentParser:
    """A parser with the options of every experiment."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM + command,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, default=Path(f"hedgerow-{name}"), help="folder for results and report"
    )
    parser.add_argument("--jobs", type=int, default=-1, help="processes; -1 takes every core")
    parser.add_argument("--resume", action="store_true", help="go on in a folder that has results")
    parser.add_argument(
        "--plugin", action="append", default=[], help="a Python file with a method of your own"
    )
    parser.add_argument(
        "--data-dir", help="folder of the data sets; else $HEDGEROW_DATA, else downloads"
    )
    return parser


def _folder(given: argparse.Namespace, words: list[str], tell: Tell) -> Folder:
    command = [*PROGRAM.split(), *words]
    return Folder(
        given.out, given.resume, given.jobs, tuple(given.plugin), command, terminal.note, tell
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
