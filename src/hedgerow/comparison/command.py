"""What `hedgerow compare` does: read, check, run what is missing, write the report; interrupted, say how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hedgerow.comparison import tables
from hedgerow.comparison.inputs import task_of
from hedgerow.comparison.options import CompareOptions, InputFiles
from hedgerow.comparison.peers import PEERS, missing_peers
from hedgerow.comparison.report import report
from hedgerow.comparison.run import READING, Unit, run_unit
from hedgerow.comparison.runs import ComparisonRuns
from hedgerow.comparison.stored_task import pack, write_task
from hedgerow.comparison.verdict import verdict
from hedgerow.core.errors import InputError
from hedgerow.experiment import results
from hedgerow.experiment.command import Outcome, Say, Tell, check_directory, find_methods, run_and_report
from hedgerow.experiment.engines import engine_of
from hedgerow.experiment.plugins import load_plugin
from hedgerow.experiment.tables import Table
from hedgerow.experiment.trials import TransferTask
from hedgerow.methods import RECIPES

ALONE = ("pa",)  # it learns from the stream alone: no source is worth anything to it


def plan(task: TransferTask, options: CompareOptions, say: Say) -> list[Unit]:
    """Check every option, then write the task and list what is to be run: errors come before anything is run."""
    engine_of(options.engine, options.jobs)
    for plugin in options.plugins:
        load_plugin(plugin)
    methods = find_methods(options.methods, RECIPES)
    if options.orders < 1:
        raise InputError(f"orders={options.orders}: at least one order of the stream is needed")
    check_directory(options.out, options.resume, READING, say)
    if options.peers and (gone := missing_peers()):
        say(gone)
    if options.orders > 1:
        say(f"{options.orders} orders: the stream is shuffled; with --orders 1 it is kept in its order in time")
    if task.warmup is None:
        say("no unlabelled rows: nothing can be aligned before the stream; --warmup .3 or --unlabelled gives some")
    checksum = _keep(task, options)
    return _units(task, methods, options, checksum)


def _keep(task: TransferTask, options: CompareOptions) -> str:
    """The task in the folder, unless results of other data are there."""
    there = results.read(options.out).rows
    shuffled = {bool(row.get("shuffled")) for row in there}
    if shuffled and shuffled != {options.orders > 1}:
        kind = "shuffled orders" if True in shuffled else "the order in time"
        raise InputError(
            f"{options.out} holds results of {kind}: they would be mixed; choose another folder with --out"
        )
    checksum, content = pack(task)
    others = {str(row.get("data")) for row in there} - {checksum}
    if others:
        raise InputError(f"{options.out} holds results of other data: they would be mixed; choose another with --out")
    write_task(options.out, content)
    return checksum


def _units(task: TransferTask, methods: Sequence[str], options: CompareOptions, checksum: str) -> list[Unit]:
    """Every method and peer with all sources; then every method that uses sources without each of them."""
    folder, several = str(Path(options.out).resolve()), options.orders > 1
    peers = [name for name, peer in PEERS.items() if options.peers and peer.there]
    units = [Unit(folder, checksum, task.name, name, options.orders, several) for name in (*methods, *peers)]
    if len(task.sources) == 1 and task.warmup is None:
        return units  # nothing would be left to fit on
    return units + [
        Unit(folder, checksum, task.name, name, options.orders, several, source.name)
        for name in methods
        if name not in ALONE
        for source in task.sources
    ]


def run(files: InputFiles, options: CompareOptions, arguments: Sequence[str], say: Say, tell: Tell) -> Outcome:
    """Run what is not in the folder yet and write the report. `arguments` are the command's, to be shown again."""
    if files.unlabelled is not None and files.warmup:
        raise InputError("--unlabelled and --warmup: give one of them")
    task = task_of(files.sources, files.stream, files.label, files.unlabelled, files.warmup, files.time)
    return run_and_report(plan(task, options, say), run_unit, report, options, arguments, say, tell)


def found(out: Path) -> tuple[str, list[Table], list[str]]:
    """The verdict, the tables and the notes about columns over the rows that are there, for the terminal."""
    runs = ComparisonRuns.read(results.read(out))
    shown = [table for table in (tables.methods(runs), tables.worth(runs)) if table is not None]
    return verdict(runs), shown, runs.notes
