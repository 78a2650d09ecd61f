"""The walk of a row through the code, traced: which function of which file is entered, in which order.

    python -m bench.walk [--all] [--methods oddm,hedgerow] [--paths live,block]
    python -m bench.walk --write DESIGN.md         # files only, between its two marks there

"live" is `predict_one` and then `learn_one` of one row, "block" is `predict_then_learn` of 100; both after some rows,
so that nothing is made for the first time. The compiled loops run as Python here, so that they are seen; of a loop that
calls others only the first is shown.

A line is a visit: functions of one file, in the order in which they were entered. Lines that repeat, as in a loop over
spaces or windows, stand once with their number. A hop back (A-B-A) is a visit to a file that was left before; from one
file to another it counts once, as a loop repeats it. Functions that call nothing else of the package, compiled loops
among them, are stops on the way: they are indented, and no hop. Properties and dunder methods (locks, guards) are left
out unless --all is given.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

os.environ["NUMBA_DISABLE_JIT"] = "1"  # before numba is imported

import numpy as np

import hedgerow
from hedgerow import Domain, OnlineTransferClassifier

PACKAGE = Path(hedgerow.__file__).parent
METHODS = ("oddm", "hedgerow")
PATHS = ("live", "block")
START = "<!-- walk -->"
END = "<!-- end of the walk -->"
BEFORE = 60  # rows learned before the walk begins, and rows of the block that is walked
BLOCK = 100


@dataclass
class Step:
    """A function that was entered, and how deep below the first one."""

    file: str
    function: str
    depth: int
    calls: int = 0  # of functions of ours


class Tracer:
    """Notes every function of the package that is entered while `sys.setprofile` has it."""

    def __init__(self, everything: bool = False) -> None:
        self.everything = everything
        self.steps: list[Step] = []
        self._stack: list[Step | None] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._stack.append(self._entered(frame))
        elif event == "return" and self._stack:
            self._stack.pop()

    def _entered(self, frame: FrameType) -> Step | None:
        code = frame.f_code
        if not code.co_filename.startswith(str(PACKAGE)) or code.co_name.startswith("<"):
            return None
        above = [step for step in self._stack if step is not None]
        file = str(Path(code.co_filename).relative_to(PACKAGE))
        if not self.everything and (
            _is_small(frame, code) or (above and _kernels(above[-1].file, file))
        ):
            return None
        step = Step(file, code.co_qualname, len(above))
        if above:
            above[-1].calls += 1
        self.steps.append(step)
        return step


def _is_small(frame: FrameType, code: CodeType) -> bool:
    """A property, or a dunder method that is no call."""
    name = code.co_name
    if name.startswith("__") and name != "__call__":
        return True
    owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    return isinstance(inspect.getattr_static(type(owner), name, None), property)


def _kernels(above: str, file: str) -> bool:
    return above.startswith("kernels/") and file.startswith("kernels/")


class Visit(NamedTuple):
    """Functions of one file; how often the line stands there; whether any of them calls another function of ours."""

    file: str
    functions: tuple[str, ...]
    leads_on: bool
    times: int = 1


def visits(walk: list[Step]) -> list[Visit]:
    """The walk as lines, those that repeat folded."""
    lines = []
    for file, group in groupby(walk, key=lambda step: step.file):
        steps = list(group)
        names = tuple(name for name, _ in groupby(step.function for step in steps))
        lines.append(Visit(file, names, any(step.calls for step in steps)))
    return folded(lines)


def folded(lines: list[Visit]) -> list[Visit]:
    """Runs of lines that repeat, however long the pattern, once with their number."""
    out: list[Visit] = []
    at = 0
    while at < len(lines):
        sizes = range(1, (len(lines) - at) // 2 + 1)
        size, times = next(
            ((n, count) for n in sizes if (count := _repeats(lines, at, n)) > 1), (1, 1)
        )
        out += [line._replace(times=times) for line in lines[at : at + size]]
        at += size * times
    return out


def _repeats(lines: list[Visit], at: int, size: int) -> int:
    count = 1
    while lines[at + count * size : at + (count + 1) * size] == lines[at : at + size]:
        count += 1
    return count


def hops_back(lines: list[Visit]) -> list[tuple[str, str]]:
    """From which file to which one that had been left before; the same two count once, as in a loop."""
    order = [file for file, _ in groupby(line.file for line in lines if line.leads_on)]
    again = {
        (left, file) for i, (left, file) in enumerate(pairwise(order)) if file in order[: i + 1]
    }
    return sorted(again)


def fitted(method: str) -> tuple[OnlineTransferClassifier, Any, Any]:
    """A small model, some labels after its start, and rows that come next."""
    rng = np.random.default_rng(0)

    def domain(name: str, rows: int) -> Domain:
        codes = rng.integers(0, 3, size=rows)
        return Domain(name, rng.normal(size=(rows, 8)) + 2 * np.eye(3, 8)[codes], codes)

    clf = OnlineTransferClassifier(method).fit_domains(
        [domain("a", 40), domain("b", 40)], domain("t", 20).unlabelled()
    )
    stream = domain("t", BEFORE + BLOCK + 10)
    return clf, stream.X, np.asarray(stream.y)


def traced(method: str, path: str, everything: bool = False) -> dict[str, list[Visit]]:
    """The walk of each call of a path."""
    clf, X, y = fitted(method)
    if path == "live":
        for x, label in zip(X[:BEFORE], y[:BEFORE], strict=True):
            clf.predict_one(x)
            clf.learn_one(x, label)
        x = X[BEFORE]
        label = y[BEFORE]
        calls: dict[str, Any] = {
            "predict_one": lambda: clf.predict_one(x), "learn_one": lambda: clf.learn_one(x, label),
        }  # fmt: skip
    else:
        clf.predict_then_learn(X[:BEFORE], y[:BEFORE])
        rows = slice(BEFORE, BEFORE + BLOCK)
        calls = {"predict_then_learn": lambda: clf.predict_then_learn(X[rows], y[rows])}
    walks = {}
    for name, call in calls.items():
        tracer = Tracer(everything)
        sys.setprofile(tracer)
        try:
            call()
        finally:
            sys.setprofile(None)
        walks[name] = visits(tracer.steps)
    return walks


def shown(line: Visit) -> str:
    names = " > ".join(name.split(".")[-1] for name in line.functions)
    times = f"  (x {line.times})" if line.times > 1 else ""
    return f"{'' if line.leads_on else '    '}{line.file}: {names}{times}"


def page() -> str:
    """The walks of all methods and paths as a table of files, for DESIGN.md."""
    rows = ["| method, call | hops back | files |", "|---|---|---|"]
    for method in METHODS:
        for path in PATHS:
            for name, lines in traced(method, path).items():
                files = dict.fromkeys(
                    line.file for line in lines if line.leads_on or line.file.startswith("kernels/")
                )
                rows.append(
                    f"| {method}, `{name}` | {len(hops_back(lines))} | {' > '.join(files)} |"
                )
    return "\n".join(rows)


def written(text: str, walks: str) -> str:
    """A page with what stands between its marks replaced."""
    before, rest = text.split(START)
    return f"{before}{START}\n{walks}\n{END}{rest.split(END)[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="every function of the package")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--paths", default=",".join(PATHS))
    parser.add_argument(
        "--write", type=Path, help="a page with the marks of the walk, to be brought up to date"
    )
    given = parser.parse_args()
    if given.write:
        given.write.write_text(
            written(given.write.read_text(encoding="utf-8"), page()), encoding="utf-8"
        )
        return
    for method in given.methods.split(","):
        for path in given.paths.split(","):
            walks = traced(method, path, given.all)
            print(f"{method}, {path}")
            for name, lines in walks.items():
                files = len({line.file for line in lines})
                back = hops_back(lines)
                print(f"  {name}: {files} files, {len(back)} hops back")
                for left, file in back:
                    print(f"    back: {left} -> {file}")
                for line in lines:
                    print(f"    {shown(line)}")


if __name__ == "__main__":
    main()
