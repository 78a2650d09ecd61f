"""The command line: every command, in the order of the help; errors of ours are one line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hedgerow.cli.commands import experiments, machine, models, streams, tour

app = typer.Typer(
    name="hedgerow",
    help="Online transfer learning: labelled sources in advance, a target stream, good predictions from the first row.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; what hedgerow refuses is one line and exit code 2, not a traceback."""
    from hedgerow.core.errors import HedgerowError

    try:
        app()
    except HedgerowError as error:
        from hedgerow.cli.terminal import error as print_error

        print_error(str(error))
        sys.exit(2)


def _version(asked: bool) -> None:
    if asked:
        import hedgerow

        print(f"hedgerow {hedgerow.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of every command."""


for command in (
    tour.demo,
    tour.methods,
    tour.data,
    models.fit,
    streams.run,
    models.inspect,
    streams.export,
    streams.replay,
    streams.serve,
    machine.warm,
    machine.doctor,
    experiments.study,
    experiments.compare,
):
    app.command()(command)
app.add_typer(experiments.paper_app, name="paper")
