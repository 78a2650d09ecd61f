"""Detectors of drift: false alarms on streams that do not change, and how soon a change is found.

    python benchmarks/drift.py --choose         # the threshold: drawn mistakes and digits, benchmarks/drift/choice.txt
    python benchmarks/drift.py                  # the nine tasks and `study drift` (HEDGEROW_DATA), then the table
    python benchmarks/drift.py --cost           # what drift_ costs a label, beside learning it
    python benchmarks/drift.py --fold           # the table alone, from the rows that are there

Every stream is learned once; all detectors then hear the same mistakes. Ours hears those of the experts too, as
`clf.drift_` does ("ours"), or those of the prediction alone, as the others do ("ours, prediction alone"). River's
detectors have their own defaults. A change is found by the first alarm between it and the next change or the end.

The threshold is the smallest with at most one alarm in 10,000 drawn labels and none on steady digits.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.drift import DriftDetector
from hedgerow.paper.tasks import TASKS
from hedgerow.study.drift import drifting
from hedgerow.study.run import fit
from hedgerow.study.scenarios import stream_task

HERE = Path(__file__).parent / "drift"
ROWS = HERE / "rows.jsonl"
METHODS = ("hedgerow", "oddm")
THRESHOLDS = (5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0)
KINDS = ("abrupt", "gradual", "recurring", "renamed")
STEADY = "as it is"
DRIFTING = ("amazon", "caltech", "dslr", "webcam", "PIE3", "PIE5")
Wrong = np.ndarray  # labels x (prediction, experts)


def mistakes(
    data: str, target: str, kind: str | None, method: str, orders: int
) -> Iterator[tuple[Wrong, tuple[int, ...]]]:
    """Who was wrong at each label of a stream, and where it changes; `kind` None: the task as it is."""
    task = stream_task(data, target)
    if kind is not None:
        task = drifting(kind)(task)
    fitted = fit(task, method)
    for order in range(orders):
        arrivals = task.arrivals(order)
        X, y = task.target.X[arrivals.rows], np.asarray(task.target.y)[arrivals.rows]
        clf = copy.deepcopy(fitted)
        said = clf.explain_then_learn(X, y)
        codes = clf.codes_of(y)
        changes = arrivals.changes[:1] if kind == "gradual" else arrivals.changes  # its two are one: begin and end
        yield np.column_stack([said.codes, said.votes]) != codes[:, None], changes


# -- detectors --------------------------------------------------------------------------------------------------


def ours(wrong: Wrong, threshold: float | None = None) -> list[int]:
    given = {} if threshold is None else {"threshold": threshold}
    return heard(
        DriftDetector(wrong.shape[1] - 1, **given), wrong, lambda d, row: d.update(int(row[0]), row[1:].tolist())
    )


def alone(wrong: Wrong) -> list[int]:
    return heard(DriftDetector(), wrong, lambda d, row: d.update(int(row[0])))


def heard(detector: Any, wrong: Wrong, tell: Callable[[Any, Any], None]) -> list[int]:
    found = []
    for t, row in enumerate(wrong):
        tell(detector, row)
        if detector.drift_detected:
            found.append(t)
    return found


def rivers() -> dict[str, Callable[[Wrong], list[int]]]:
    from river.drift import ADWIN, KSWIN, binary

    makers = {"ADWIN": ADWIN, "DDM": binary.DDM, "KSWIN": lambda: KSWIN(seed=0)}
    return {
        name: lambda wrong, make=make: heard(make(), wrong, lambda d, row: d.update(int(row[0])))
        for name, make in makers.items()
    }


# -- the threshold ----------------------------------------------------------------------------------------------


def choose() -> None:
    """Alarms per 10,000 labels without a change, and changes found, for each threshold; digits and drawn mistakes."""
    rng = np.random.default_rng(0)
    drawn = [rng.random((5000, 9)) < rate for rate in (0.02, 0.05, 0.1, 0.2, 0.4) for _ in range(2)]
    names = ("tilted", "blurred", "faded", "thin", "shifted")
    steady = [w for m in METHODS for n in names for w, _ in mistakes("digits", n, "steady", m, 4)]
    changed = [f for m in METHODS for n in names for k in ("abrupt", "renamed") for f in mistakes("digits", n, k, m, 2)]
    lines = ["threshold  drawn: alarms/10,000  digits steady: streams with one  digits: changes found, median delay"]
    for threshold in THRESHOLDS:
        false = sum(len(ours(w, threshold)) for w in drawn) / sum(map(len, drawn)) * 1e4
        with_one = sum(bool(ours(w, threshold)) for w in steady)
        outcomes = [outcome(ours(w, threshold), changes, len(w)) for w, changes in changed]
        delays = [d for one in outcomes for d in one["delays"] if d is not None]
        n = sum(len(one["delays"]) for one in outcomes)
        lines.append(
            f"{threshold:9.0f}  {false:21.2f}  {with_one:15} of {len(steady):3}            "
            f"{len(delays):6} of {n}, {np.median(delays):.0f}"
        )
    HERE.mkdir(exist_ok=True)
    (HERE / "choice.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


# -- measuring --------------------------------------------------------------------------------------------------


def outcome(alarms: list[int], changes: tuple[int, ...], n: int) -> dict[str, Any]:
    """Delay until each change is found (None: never), and alarms before the first change."""
    ends = [*changes[1:], n] if changes else []
    delays = [next((a - c for a in alarms if c <= a < end), None) for c, end in zip(changes, ends, strict=True)]
    return {"n": n, "delays": delays, "false": sum(a < (changes[0] if changes else n) for a in alarms)}


def measure(orders: int, tasks: list[str]) -> None:
    """Rows of every task, kind and method that is not there yet; the tasks as they are come first."""
    HERE.mkdir(exist_ok=True)
    done = {(row["task"], row["kind"], row["method"]) for row in rows()}
    units = [(name, kind, method) for kind in (None, *KINDS) for name in tasks for method in METHODS]
    for name, kind, method in units:
        if (name, kind or STEADY, method) in done or (kind is not None and name not in DRIFTING):
            continue
        found = list(_measured(name, kind, method, orders))
        with ROWS.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in found)
        print(name, kind, method, flush=True)


def _measured(name: str, kind: str | None, method: str, orders: int) -> Iterator[dict[str, Any]]:
    about = {"task": name, "kind": kind or STEADY, "method": method}
    detectors = {"ours": ours, "ours, prediction alone": alone, **rivers()}
    for order, (wrong, changes) in enumerate(mistakes(TASKS[name].family, name, kind, method, orders)):
        for detector, run in detectors.items():
            yield {**about, "order": order, "detector": detector, **outcome(run(wrong), changes, len(wrong))}


def cost() -> str:
    """Learning single rows and a block with the looks and without them, in turn; the best of five each."""
    from hedgerow.drift import evidence

    task, real, lines = stream_task("digits", "shifted"), (evidence.look, evidence.learned), []
    X, y = task.target.X, np.asarray(task.target.y)
    for method in METHODS:
        fitted, took = fit(task, method), {}
        for what in (*("rows", "block") * 2, *("rows", "block") * 5):  # the first two warm up
            for on in (True, False):
                evidence.look, evidence.learned = real if on else (lambda *_: False, lambda *_: False)
                clf = copy.deepcopy(fitted)
                began = time.process_time()
                if what == "block":
                    clf.partial_fit(X, y)
                else:
                    for x, label in zip(X, y, strict=True):
                        clf.learn_one(x, label)
                took.setdefault((what, on), []).append(time.process_time() - began)
        evidence.look, evidence.learned = real
        shares = [min(took[what, True]) / min(took[what, False]) for what in ("rows", "block")]
        lines.append(f"{method}: {shares[0]:.3f} times the time for single rows, {shares[1]:.3f} times for a block")
    return "\n".join(lines)


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()] if ROWS.exists() else []


def fold() -> str:
    found = rows()
    detectors = list(dict.fromkeys(row["detector"] for row in found))
    text = """# Detectors of drift

Made by `python benchmarks/drift.py`: what each detector said on the same mistakes. *False alarms* are those on tasks
as they are, where nothing changes: alarms in 10,000 labels, and streams with at least one. Then, for each kind of
`hedgerow study drift`, how many of the changes were found, and the median number of labels until then. Our threshold
was chosen on drawn mistakes and digits (`--choose`, [choice.txt](choice.txt)).
"""
    for method in METHODS:
        mine = [row for row in found if row["method"] == method]
        steady = {(row["task"], row["order"]) for row in mine if row["kind"] == STEADY}
        tasks = len({task for task, _ in steady})
        moving = ", ".join(dict.fromkeys(row["task"] for row in mine if row["kind"] != STEADY))
        text += (
            f"\n## Mistakes of `{method}`\n\n{len(steady)} streams of {tasks} tasks as they are; changes of {moving}.\n"
        )
        text += f"\n| detector | alarms/10,000 | streams with one | {' | '.join(KINDS)} |\n"
        text += f"|---|---|---|{'---|' * len(KINDS)}\n"
        for detector in detectors:
            of = [row for row in mine if row["detector"] == detector]
            calm = [row for row in of if row["kind"] == STEADY]
            rate = 1e4 * sum(row["false"] for row in calm) / max(sum(row["n"] for row in calm), 1)
            cells = [cell([row for row in of if row["kind"] == kind]) for kind in KINDS]
            text += f"| {detector} | {rate:.1f} | {sum(r['false'] > 0 for r in calm)} | {' | '.join(cells)} |\n"
    return text


def cell(of: list[dict[str, Any]]) -> str:
    delays = [d for row in of for d in row["delays"]]
    met = [d for d in delays if d is not None]
    return f"{len(met)} of {len(delays)}" + (f", {np.median(met):.0f}" if met else "")


def main() -> None:
    parser = argparse.ArgumentParser(description="False alarms and delays of drift detectors.")
    parser.add_argument("--choose", action="store_true", help="the threshold, on digits and drawn mistakes")
    parser.add_argument("--cost", action="store_true", help="what it costs a label")
    parser.add_argument("--fold", action="store_true", help="only the table")
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument(
        "--tasks", default=",".join(("dslr", "webcam", "amazon", "caltech", *(f"PIE{i}" for i in range(1, 6))))
    )
    chosen = parser.parse_args()
    if chosen.cost:
        print(cost())
        return
    if chosen.choose:
        choose()
        return
    if not chosen.fold:
        measure(chosen.orders, chosen.tasks.split(","))
    (HERE / "RESULTS.md").write_text(fold(), encoding="utf-8")


if __name__ == "__main__":
    main()
