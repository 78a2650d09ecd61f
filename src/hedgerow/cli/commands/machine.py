"""The installation: compile its loops, find what is wrong with it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def warm() -> None:
    """Compile every loop now, for all processes to come; in an image, while it is built."""
    from hedgerow.cli import terminal
    from hedgerow.cli.warm import warm as run_warm

    with terminal.progress() as progress:
        lines, code = run_warm(progress)
    for line in lines:
        print(line, file=sys.stderr if line.startswith("error:") else sys.stdout)
    raise typer.Exit(code)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="For programs: findings as JSON.")] = False,
) -> None:
    """What is installed and what it runs on, with a remedy for every problem; exit code 1 if there is one."""
    from hedgerow.cli import doctor as check
    from hedgerow.cli import terminal

    findings = check.examine()
    if as_json:
        print(check.as_json(findings))
    else:
        terminal.print_table(["state", "what", "found"], check.as_rows(findings))
        print(check.verdict(findings))
    raise typer.Exit(0 if all(one.ok for one in findings) else 1)
