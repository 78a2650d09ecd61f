"""`hedgerow doctor`: what this installation and this machine are like, what is wrong with them, and what helps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

OK, NOTE, PROBLEM = "ok", "note", "problem"
REINSTALL = "pip install --force-reinstall hedgerow"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. A note is something that only some need; a problem is in everybody's way.

    >>> Finding("machine", "clock", "2020-01-01", PROBLEM, "set the clock").ok
    False
    """

    group: str
    what: str
    found: str
    state: str = OK
    remedy: str = ""

    @property
    def ok(self) -> bool:
        """Whether nobody has to do anything."""
        return self.state != PROBLEM


Check = Callable[[], Iterable[Finding]]


def checks() -> list[Check]:
    """All of them, in the order in which they are shown."""
    from hedgerow.cli.doctor import machine, software

    return [
        software.versions, software.extras, software.programs, software.compiled_kernels, software.data_sets,
        machine.processors, machine.blas, machine.memory, machine.folders, machine.clock,
    ]  # fmt: skip


def examine(all_checks: list[Check] | None = None) -> list[Finding]:
    """Every check; one that cannot even be made is a problem of its own and keeps no other from being made."""
    findings: list[Finding] = []
    for check in checks() if all_checks is None else all_checks:
        try:
            findings += check()
        except Exception as error:  # a broken package may raise anything when it is imported
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            findings.append(Finding("checks", check.__name__.replace("_", " "), said, PROBLEM, REINSTALL))
    return findings


def as_json(findings: list[Finding]) -> str:
    """For other programs: {"ok": ..., "findings": [...]}."""
    return json.dumps({"ok": all(one.ok for one in findings), "findings": [asdict(one) for one in findings]}, indent=2)


def as_rows(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """For a table: state, what, what was found and what helps."""
    return [
        (one.state, f"{one.group}: {one.what}", one.found + (f"; remedy: {one.remedy}" if one.remedy else ""))
        for one in findings
    ]


def verdict(findings: list[Finding]) -> str:
    """The last line."""
    problems = sum(not one.ok for one in findings)
    if problems:
        return f"{problems} problem{'s' if problems > 1 else ''}: what helps stands above"
    return "all is well"
