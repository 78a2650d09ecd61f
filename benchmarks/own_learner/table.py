"""Fold benchmarks/own_learner/run.py's rows into tables (Markdown on stdout).

python benchmarks/own_learner/table.py OUT
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from run import BASELINES, EARLY, OURS, lines

from hedgerow.evaluate.stats import Rates, friedman
from hedgerow.paper.tasks import TASKS

Row = dict[str, object]


def by_split(rows: list[Row], task: str, method: str, value: Callable[[Row], float]) -> dict[int, float]:
    """Mean over the orders of each split."""
    found = [r for r in rows if r["task"] == task and r["method"] == method]
    splits = sorted({int(r["split"]) for r in found})
    return {s: float(np.mean([value(r) for r in found if r["split"] == s])) for s in splits}


def table(rows: list[Row], title: str, value: Callable[[Row], float]) -> None:
    methods = list(dict.fromkeys(str(r["method"]) for r in rows))
    tasks = [t for t in TASKS if any(r["task"] == t for r in rows)]
    print(f"\n## {title}\n\n| method | {' | '.join(TASKS[t].title for t in tasks)} | average |")
    print("|---" * (len(tasks) + 2) + "|")
    for method in methods:
        cells = [list(by_split(rows, t, method, value).values()) for t in tasks]
        if all(cells):
            shown = [f"{np.mean(c):.2f} ± {np.std(c, ddof=1) if len(c) > 1 else 0:.2f}" for c in cells]
            print(f"| {method} | {' | '.join(shown)} | **{np.mean([np.mean(c) for c in cells]):.2f}** |")


def rate(row: Row) -> float:
    return 100 * int(row["mistakes"]) / int(row["n"])


def main(out: str) -> None:
    rows = lines(out)
    table(rows, "Mistakes, %, mean ± sd over the split means", rate)
    table(rows, f"Mistakes in the first {EARLY} labels", lambda r: float(r["early"]))
    table(rows, "Expected calibration error", lambda r: float(r["calibration"]))
    table(rows, "Milliseconds an instance, in blocks", lambda r: 1e3 * float(r["seconds_online"]) / int(r["n"]))
    tasks = [t for t in TASKS if any(r["task"] == t for r in rows)]
    print("\n## Splits in which ours is below every method of the paper\n\n| method | task | splits |\n|---|---|---|")
    for ours in OURS:
        for task in tasks:
            mine = by_split(rows, task, ours, rate)
            others = [by_split(rows, task, name, rate) for name in BASELINES]
            won = sum(all(mine[s] < o[s] for o in others if s in o) for s in mine)
            print(f"| {ours} | {TASKS[task].title} | {won} of {len(mine)} |")
    names = [m for m in (*OURS, *BASELINES) if all(by_split(rows, t, m, rate) for t in tasks)]
    matrix = np.array([[np.mean(list(by_split(rows, t, m, rate).values())) for m in names] for t in tasks])
    ranking = friedman(Rates(tuple(names), matrix))
    print(f"\n## Mean ranks over the tasks, critical difference {ranking.critical_difference:.2f}\n")
    print(f"Friedman p = {ranking.p:.2g}\n")
    for name, rank in ranking.ordered:
        print(f"- {rank:.2f} {name}")


if __name__ == "__main__":
    main(sys.argv[1])
