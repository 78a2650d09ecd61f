"""The command line: every command. What a command does is imported when it is called.

The help of an option stands in the section Parameters of its command's docstring. What hedgerow
refuses, and what the system does not let it write, is one line and an exit code, not a traceback.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Argument, CycloptsError, Parameter

from hedgerow import __version__
from hedgerow.cli import options, terminal
from hedgerow.cli.options import (
    AtLeastOne,
    Config,
    Csv,
    DataDir,
    Experiment,
    Group,
    Method,
    Orders,
    Out,
    Plugins,
    Sources,
    Tables,
    Words,
    configured,
)  # fmt: skip
from hedgerow.core.errors import HedgerowError, InputError, require, unknown
from hedgerow.live import Settings
from hedgerow.run import Job
from hedgerow.service import ServiceSettings

if TYPE_CHECKING:
    from hedgerow.comparison.runner import Folder, Tell

SHOWN = (
    "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"  # the methods of a comparison that names none
)

app = App(
    name="hedgerow",
    help="Online transfer learning: fit on labelled data of other domains, predict and learn along a new one's stream.",
    help_format="plaintext",
    version=f"hedgerow {__version__}",
    default_parameter=options.DEFAULT,
    result_action="return_value",
)
app.register_install_completion_command(
    help="Let the shell complete commands and options after Tab."
)


def arguments_of(command: str) -> list[Argument]:
    """The arguments and options of a command, for the pages and tests that list them."""
    found = app[command].assemble_argument_collection(
        default_parameter=options.DEFAULT, parse_docstring=True
    )
    return [argument for argument in found if argument.parse and argument.show]


def main() -> None:
    """Run the command line."""
    warnings.showwarning = lambda message, *_, **__: terminal.note(f"warning: {message}")
    try:
        try:
            code = app(sys.argv[1:], exit_on_error=False, print_error=False)
        finally:
            sys.stdout.flush()
    except (HedgerowError, CycloptsError) as error:
        terminal.error(str(error))
        sys.exit(2)
    except OSError as error:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # what could not be written is not tried again at exit
        if error.errno != errno.EPIPE:  # whoever read it has gone
            where = f" ({error.filename})" if error.filename else ""
            terminal.error(f"the system refused: {error.strerror or error}{where}")
        sys.exit(1)
    sys.exit(code)


@app.command
def demo(
    *, experiment: Experiment = Experiment(), out: Out = Path("hedgerow-demo"), orders: Orders = 10,
    target: str = "shifted",
) -> None:  # fmt: skip
    """Compare all methods on handwritten digits, whose domains are distortions computed from them: once with the
    paper's preprocessing, once with ours.

    Parameters
    ----------
    target
        Domain that streams; the others are sources.
    """
    from hedgerow.comparison.compare import demo as run_demo

    with terminal.progress() as tell:
        reports = list(run_demo(_folder(out, experiment, tell), orders, target))
    for report in reports:
        _show(_finished(report))


@app.command
def methods(*, readings: bool = False) -> None:
    """List the methods and their parts.

    Parameters
    ----------
    readings
        Show the presets of the options instead.
    """
    from hedgerow.methods import METHODS, as_table

    def words(value: object) -> str:
        if value is None:
            return "the method's own"
        return " + ".join(map(str, value)) if isinstance(value, tuple) else str(value)

    if readings:
        rows = as_table()
        terminal.print_table(
            list(rows[0]), [[words(value) for value in row.values()] for row in rows]
        )
    else:
        header = [
            "name",
            "title",
            "spaces",
            "frozen experts",
            "online from",
            "mixer",
            "refresh",
            "reference",
        ]
        parts = [(name, METHODS[name]) for name in METHODS]
        terminal.print_table(
            header, [(name, r.title, *r.row().values(), r.reference) for name, r in parts]
        )


@app.command
def data(*, data_dir: DataDir = None) -> None:
    """List the data sets that load() knows, and where each one is."""
    from hedgerow.data import available

    header = ["name", "domains", "rows", "features", "classes", "where"]
    rows = [
        (a.name, ", ".join(a.domains), a.rows, a.features, a.classes, a.where)
        for a in available(data_dir)
    ]
    terminal.print_table(header, rows)


@app.command
def check(
    files: list[Path],
    /,
    *,
    label: str | None = None,
    unlabelled: Path | None = None,
    model: Path | None = None,
    tables: Tables = Tables(),
) -> int:
    """Report what is wrong with files, or odd, before anything is fitted; exit code 1 if a fit would be refused.

    Parameters
    ----------
    files
        Labelled sources: files, folders or patterns.
    label
        Their label column; without it labels are not checked.
    unlabelled
        Rows of the target.
    model
        A model file: report which of its columns the files lack.
    """
    from hedgerow.cli.fit_files import check_files

    with tables.reading():
        table = tables.options.get("table")
        findings, lacks = check_files(files, label, unlabelled, model, table)
    terminal.print_table(["column", "becomes", *findings.tables], findings.columns)
    for line in (*findings.texts, *lacks):
        terminal.print_line(line)
    return int(any(each.stops for each in findings.found))


@app.command
def fit(
    *,
    source: Sources,
    label: str,
    output: Path,
    tables: Tables = Tables(),
    unlabelled: Path | None = None,
    method: Method = "hedgerow",
    reading: Annotated[str, Parameter(completer=options.readings)] = "general",
    option: Words = None,
    from_journal: Path | None = None,
    task: str | None = None,
    coverage: list[float] | None = None,
    plugins: Plugins = Plugins(),
) -> None:
    """Fit a model on labelled source files and, if there are any, unlabelled rows of the target.

    Parquet sources that take more than half of the free memory are read part by part, in several passes.

    Parameters
    ----------
    label
        The label column of the sources.
    output
        File for the model (.safetensors).
    unlabelled
        Unlabelled rows of the target.
    reading
        Preset of the options: general, authors, paper or table.
    option
        key=value for the classifier, e.g. dim=50.
    from_journal
        The folder of a live model: its rows are used as the target's, and its labels are learned again in their order.
    task
        classify or regress. Default: text and a few whole numbers are classes, fractions are numbers.
    coverage
        The share of labels that intervals of numbers or sets of classes should contain; may be repeated. Default:
        intervals of 0.9 for numbers, no sets for classes.
    """
    from hedgerow.cli.fit_files import check_output, fit_files, parse_options, summary

    check_output(output, [*source, *([unlabelled] if unlabelled else [])])
    arguments = {**parse_options(option or [], method, reading), **tables.options}
    with tables.reading():
        fitted = fit_files(source, label, unlabelled, arguments, from_journal, task, coverage)
    fitted.clf.save(output)
    header, rows, lines = summary(fitted)
    terminal.print_table(header, rows)
    for line in (*lines, f"model saved to {output}"):
        terminal.print_line(line)


@app.command(config=configured)
def run(
    *,
    job: Annotated[Job, Group, Parameter(allow_leading_hyphen=True)],
    csv: Csv = Csv(),
    setting: Words = None,
    config: Config = None,
    plugins: Plugins = Plugins(),
) -> int:
    """Predict each row of a stream before learning its label.

    Parameters
    ----------
    setting
        key=value of the journal's live model, e.g. label_timeout=3600, max_pending=100000 or keep_events=100000; may be
        repeated. accept_loss=True opens a journal whose newest events are missing; encoding=cp1252 reads text
        that is not UTF-8.
    """
    from hedgerow.run.loop import run as run_job

    settings = options.pairs(setting or [], "--setting")
    accept_loss = settings.pop("accept_loss", False)
    encoding = settings.pop("encoding", None)
    if not isinstance(accept_loss, bool):
        raise InputError(f"--setting accept_loss={accept_loss}: must be True or False")
    known = [field.name for field in fields(Settings)]
    for key in settings.keys() - set(known):
        raise unknown("setting", key, [*known, "accept_loss", "encoding"])
    Settings(**settings)  # whatever is wrong with them is said before anything is opened
    live = job.output != "-" or not sys.stdout.isatty()
    with terminal.status(live) as tell, csv.reading(encoding):
        return run_job(
            replace(job, settings=settings, accept_loss=accept_loss), terminal.note, tell
        )


@app.command
def inspect(path: Path, /, *, plugins: Plugins = Plugins()) -> None:
    """Describe a model or a journal: domains, classes, weights, mistakes or errors, sizes, events that wait for labels.

    Parameters
    ----------
    path
        A model file, or the folder of a live model.
    """
    from hedgerow.cli.journals import inspected

    terminal.print_table([str(path), ""], inspected(path))


@app.command
def explain(*, model: Path, row: str, json: bool = False, plugins: Plugins = Plugins()) -> None:
    """Explain the prediction for one row: the vote and the weight of each expert, and what each column adds.

    Parameters
    ----------
    model
        A model file, or the folder of a live model.
    row
        The row as JSON, {"age": 31, "city": "Oslo"}; or a file, bookings.csv:3 for its third row.
    json
        Print JSON instead of text.
    """
    from json import dumps

    from hedgerow.cli.journals import explained

    explanation = explained(model, row)
    if not json:
        terminal.print_line(str(explanation))
        return
    parts = explanation.contributions
    fields = explanation._asdict() | {"contributions": parts._asdict()}
    print(dumps(fields, default=str, skipkeys=False))


@app.command
def export(journal: Path, /, *, output: Path) -> None:
    """Write the events of a journal to a file, with features, predictions and labels.

    Parameters
    ----------
    journal
        The folder of a live model.
    output
        A new .jsonl or .parquet file.
    """
    from hedgerow.live.look import export as write_export

    print(f"{write_export(journal, output)} events written to {output}")


@app.command
def backup(journal: Path, folder: Path, /) -> None:
    """Copy a live model or a fleet, even while it runs; the copy is verified and can be opened.

    Parameters
    ----------
    journal
        The folder of a live model or of a fleet.
    folder
        A new folder.
    """
    from hedgerow.cli.journals import copy

    copy(journal, folder)
    print(f"{journal} copied to {folder}")


@app.command
def restore(folder: Path, journal: Path, /) -> None:
    """Copy a backup to a new folder and verify it; the backup itself is not changed.

    Parameters
    ----------
    folder
        A folder made by `hedgerow backup`.
    journal
        A new folder for the live model or fleet; move an old one away before.
    """
    from hedgerow.cli.journals import copy

    copy(folder, journal)
    print(f"{folder} restored to {journal}")


@app.command(name="replace")
def replace_model(
    journal: Path,
    model: Path | None = None,
    /,
    *,
    back: bool = False,
    reason: str = "",
    plugins: Plugins = Plugins(),
) -> None:
    """Replace the model of a live model; its events and counts stay. For a model of a running service, use PUT.

    Parameters
    ----------
    journal
        The folder of a live model that no process has open.
    model
        A model file.
    back
        Undo the last replacement: the earlier model, as it was then.
    reason
        The reason; it is kept in the journal.
    """
    from hedgerow.live import LiveModel

    if (model is None) != back:
        raise InputError("give either a model file or --back")
    with LiveModel.open(journal) as live:
        before = live.stats()["model"]["digest"]
        now = (
            live.replace_back(reason=reason)
            if model is None
            else live.replace(model, reason=reason)
        )
    print(
        f"model {before[:12]} replaced by {now['digest'][:12]}; hedgerow replace {journal} --back undoes it"
    )


@app.command
def forget(journal: Path, id: list[str], /) -> None:
    """Remove events from a journal at once: rows, predictions, labels and ids. What was learned from them stays.

    Parameters
    ----------
    journal
        The folder of a live model that no process has open. A running service has POST .../forget for it.
    id
        The id of an event; may be repeated.
    """
    from hedgerow.live import LiveModel

    with LiveModel.open(journal) as live:
        forgotten = live.forget(*id)
    later = (
        "; an open reader still holds older pages, which go when it closes"
        if forgotten.pending
        else ""
    )
    print(f"{len(forgotten)} of {len(id)} events found and removed{later}")


@app.command(config=configured)
def serve(
    *,
    demo: bool = False,
    config: Config = None,
    service: Annotated[ServiceSettings, Group] = ServiceSettings(),
    plugins: Plugins = Plugins(),
) -> None:
    """Serve live models and fleets over HTTP: predictions go out, labels follow, nothing acknowledged is lost.

    Parameters
    ----------
    demo
        Start a demonstration: the embedded digits stream into a model.
    """
    for module in ("starlette", "msgspec", "uvicorn", "prometheus_client"):
        require(module, "live")
    from hedgerow.service.app import serve as run_service

    if service.models is None and not demo:
        raise InputError("--models is missing: name a folder for the live models, or try --demo")
    with (
        TemporaryDirectory()
        if service.models is None
        else nullcontext(str(service.models)) as folder
    ):
        run_service(replace(service, models=Path(folder)), demo=demo, tell=terminal.note)


@app.command
def warm() -> int:
    """Compile the kernels into the cache, so that later processes start fast; for an image, while it is built."""
    from hedgerow.cli.installation import warm as run_warm

    with terminal.progress() as progress:
        lines, code = run_warm(progress)
    for line in lines:
        print(line, file=sys.stderr if line.startswith("error:") else sys.stdout)
    return code


@app.command
def doctor() -> int:
    """Check the installation and name a remedy for every problem; exit code 1 if there is one."""
    from hedgerow.cli import installation

    findings = installation.examine()
    rows = [(one.state, one.what, one.found, one.remedy) for one in findings]
    terminal.print_table(["state", "what", "found", "remedy"], rows)
    problems = sum(one.state == installation.PROBLEM for one in findings)
    print(f"{problems} problem{'s' if problems > 1 else ''}" if problems else "all is well")
    return 1 if problems else 0


# -- experiments ------------------------------------------------------------------------------------------------


@app.command
def compare(
    *,
    tables: Tables = Tables(),
    experiment: Experiment = Experiment(),
    out: Out = Path("hedgerow-compare"),
    source: Annotated[
        list[Path] | None,
        Parameter(help="A labelled source, as in `fit`; repeat it for each source."),
    ] = None,
    stream: Path | None = None,
    label: str | None = None,
    domain: list[Path] | None = None,
    unlabelled: Path | None = None,
    warmup: float | None = None,
    methods: Annotated[str, Parameter(completer=options.methods)] = SHOWN,
    order_by: str | None = None,
    orders: Annotated[int, AtLeastOne] = 1,
    peers: str = "all",
    task: str | None = None,
    metric: str | None = None,
    option: Words = None,
) -> None:
    """Compare methods on your own files: mistakes, calibration, time and the value of each source, in a report.

    With --domain, each domain is the target once and all others are its sources. Numeric labels are predicted by our
    regressor, a running mean, the last value, and ridge and boosting, which are refitted: RMSE, MAE, coverage and
    width of intervals.

    Parameters
    ----------
    stream
        The labelled stream, in its order in time.
    label
        The label column.
    domain
        Instead of --source and --stream: a labelled domain, once for each; every one is the target once.
    unlabelled
        Unlabelled rows of the target, known in advance.
    warmup
        Instead of --unlabelled: the share of the stream's first rows to use without labels, e.g. 0.3, which is the
        default with --domain.
    methods
        Names joined by commas, or all; see `hedgerow methods`.
    order_by
        Sort the stream by this column, which is then not used as a feature.
    orders
        Orders of the stream: 1 is the order in time, more are shuffled.
    peers
        all: boosting and logistic regression of scikit-learn and, if it is installed, river's forest; none; or names
        joined by commas.
    task
        classify or regress; default: by the labels.
    metric
        What methods are ranked by: mistakes, average-precision or log-loss. Default: mistakes, or the average precision
        of a class that is rare in the stream.
    option
        key=value for the methods that read it, e.g. dim=50.
    """
    from hedgerow.comparison.compare import run
    from hedgerow.comparison.tasks import task_of, tasks_of

    if domain and (source or stream or unlabelled):
        raise InputError(
            "--domain makes every domain the target once: leave out --source, --stream and --unlabelled"
        )
    if not domain and not (source and stream):
        raise InputError("give --source and --stream, or --domain once for each of several domains")
    with tables.reading():
        if domain:
            streams = tasks_of(domain, label, 0.3 if warmup is None else warmup, order_by, task)
        else:
            streams = [task_of(source or [], stream, label, unlabelled, warmup, order_by, task)]
    given = {**options.pairs(option or []), **tables.options}
    with terminal.progress() as tell:
        folder = _folder(out, experiment, tell)
        report = run(
            folder,
            streams,
            methods=methods,
            orders=orders,
            peers=peers,
            options=given,
            metric=metric,
        )
    _show(_finished(report))


def _folder(out: Path, asked: Experiment, tell: Tell) -> Folder:
    from hedgerow.comparison.runner import Folder

    command = ["hedgerow", *sys.argv[1:]]
    return Folder(
        out, asked.resume, asked.jobs, tuple(asked.plugin or ()), command, terminal.note, tell
    )


def _finished(report: Path | None) -> Path:
    """The report of an experiment; interrupted, it has said how to go on."""
    from hedgerow.comparison.runner import INTERRUPTED

    if report is None:
        sys.exit(INTERRUPTED)
    return report


def _show(report: Path) -> None:
    """The verdict and the tables of a comparison, and the path of its report."""
    from hedgerow.comparison.compare import comparison_in

    comparison = comparison_in(report.parent)
    terminal.print_line(comparison.verdict)
    for table in comparison.tables:
        terminal.print_line(table.title, style="bold")
        terminal.print_table(table.header, table.texts, numbers=True, best=table.best)
    for text in comparison.findings:
        terminal.print_line(text)
    terminal.print_line("Report:", style="bold")
    print(report)
