"""Fold the rows of benchmarks/own_learner/run.py into RESULTS.md, ranks.svg and configuration.json beside this file.

    python benchmarks/own_learner/table.py [results=OUT] [ablation=OUT] [others=OUT]

OUT is a folder of run.py: nine tasks, `--ablate`, `--data`. Its rows are copied here, so that the tables can be made
again from what is in the repository: python benchmarks/own_learner/table.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from ablations import ABLATIONS
from run import BASELINES, EARLY, OURS, lines

from hedgerow import METHODS
from hedgerow.evaluate.stats import Ranking, Rates, friedman
from hedgerow.learners.ridge import class_targets, mixture, near, pool, size, space
from hedgerow.learners.ridge import pool_labels as balance
from hedgerow.learners.ridge.plan import NEAR, SPACES
from hedgerow.methods import OWN_STEPS
from hedgerow.paper.diagram import critical_difference
from hedgerow.paper.tasks import TASKS

Row = dict[str, object]
HERE = Path(__file__).parent
TUNED = ("PIE3", "PIE5", "webcam", "dslr")


def by_split(rows: list[Row], task: str, method: str, value: Callable[[Row], float]) -> dict[int, float]:
    """Mean over the orders of each split."""
    found = [r for r in rows if r["task"] == task and r["method"] == method]
    splits = sorted({int(r["split"]) for r in found})
    return {s: float(np.mean([value(r) for r in found if r["split"] == s])) for s in splits}


def tasks_of(rows: list[Row]) -> list[str]:
    """The tasks of the rows: the paper's in its order, then others."""
    names = {str(r["task"]): None for r in rows}
    return [*(t for t in TASKS if t in names), *sorted(t for t in names if t not in TASKS)]


def title_of(task: str) -> str:
    """As a column's head."""
    return TASKS[task].title if task in TASKS else task


def table(rows: list[Row], title: str, value: Callable[[Row], float], digits: int = 2) -> Iterator[str]:
    """A row a method, a column a task, and the average over the tasks."""
    methods = list(dict.fromkeys(str(r["method"]) for r in rows))
    order = [*OURS, *BASELINES, *ABLATIONS]
    tasks = tasks_of(rows)
    yield f"\n## {title}\n\n| method | {' | '.join(title_of(t) for t in tasks)} | average |"
    yield "|---" * (len(tasks) + 2) + "|"
    for method in sorted(methods, key=order.index):
        cells = [list(by_split(rows, t, method, value).values()) for t in tasks]
        if all(cells):
            sd = [f" ± {np.std(c, ddof=1):.{digits}f}" if len(c) > 1 else "" for c in cells]
            shown = [f"{np.mean(c):.{digits}f}{s}" for c, s in zip(cells, sd, strict=True)]
            yield f"| {method} | {' | '.join(shown)} | **{np.mean([np.mean(c) for c in cells]):.{digits}f}** |"


def rate(row: Row) -> float:
    """Mistakes in percent."""
    return 100 * int(str(row["mistakes"])) / int(str(row["n"]))


def won(rows: list[Row], value: Callable[[Row], float]) -> Iterator[str]:
    """In how many splits ours is below every method of the paper."""
    tasks = tasks_of(rows)
    yield f"\n| method | {' | '.join(title_of(t) for t in tasks)} |\n{'|---' * (len(tasks) + 1)}|"
    for ours in OURS:
        cells = []
        for task in tasks:
            mine = by_split(rows, task, ours, value)
            others = [by_split(rows, task, name, value) for name in BASELINES]
            cells.append(f"{sum(all(mine[s] < o[s] for o in others if s in o) for s in mine)} of {len(mine)}")
        yield f"| {ours} | {' | '.join(cells)} |"


def ranking_of(rows: list[Row]) -> Ranking:
    """Friedman's test over the task means."""
    tasks = tasks_of(rows)
    names = [m for m in (*OURS, *BASELINES) if all(by_split(rows, t, m, rate) for t in tasks)]
    matrix = np.array([[np.mean(list(by_split(rows, t, m, rate).values())) for m in names] for t in tasks])
    return friedman(Rates(tuple(names), matrix))


def page(rows: list[Row], ablation: list[Row], others: list[Row]) -> Iterator[str]:
    """RESULTS.md."""
    splits = sorted({int(str(r["split"])) for r in rows})
    orders = len({r["trial"] for r in rows})
    yield "# Our own learner against the methods of the paper\n"
    yield f"Made by `run.py` and `table.py`: splits {splits}, {orders} orders each, everybody with the same input map."
    yield f"The configuration was chosen on {', '.join(TUNED)} with splits 0 to 4, and is in configuration.json."
    yield "Splits of one data set overlap: the deviation over them is no confidence interval."
    yield from table(rows, "Mistakes, %, mean ± sd over the split means", rate)
    yield "\nSplits in which ours is below every method of the paper:"
    yield from won(rows, rate)
    untuned = [t for t in TASKS if t not in TUNED]
    means = [np.mean([np.mean(list(by_split(rows, t, m, rate).values())) for t in untuned]) for m in OURS]
    yield f"\nAverage over the tasks that were not tuned on ({', '.join(untuned)}): " + ", ".join(
        f"{name} {value:.2f}" for name, value in zip(OURS, means, strict=True)
    )
    yield from table(rows, f"Mistakes in the first {EARLY} labels", lambda r: float(str(r["early"])), 1)
    yield "\nSplits in which ours has fewer of them than every method of the paper:"
    yield from won(rows, lambda r: float(str(r["early"])))
    yield from table(rows, "Expected calibration error", lambda r: float(str(r["calibration"])), 3)
    ranking = ranking_of(rows)
    yield f"\n## Mean ranks over the tasks\n\nFriedman p = {ranking.p:.2g}, critical difference "
    yield f"{ranking.critical_difference:.2f} (Nemenyi, 5 %).\n\n![Critical-difference diagram](ranks.svg)"
    if others:
        yield from untuned_sets(others)
    if ablation:
        ablation = complete(ablation)
        kept = f"splits {sorted({r['split'] for r in ablation})}, {len({r['trial'] for r in ablation})} orders"
        yield from table(ablation, f"Ablation: `hedgerow` without one ingredient, mistakes in % ({kept})", rate)


def complete(rows: list[Row]) -> list[Row]:
    """The rows of those tasks that every method has run."""
    methods = {r["method"] for r in rows}
    whole = {t for t in tasks_of(rows) if {r["method"] for r in rows if r["task"] == t} == methods}
    return [r for r in rows if r["task"] in whole]


def untuned_sets(rows: list[Row]) -> Iterator[str]:
    """Data sets that nothing was chosen on: mistakes, and how far the best is from ours in standard errors."""
    seeds = sorted({int(str(r["split"])) for r in rows})
    yield from table(rows, f"Sets that nothing was chosen on, mistakes in % (splits {seeds})", rate)
    yield "\n| target | majority rule | best method of the paper | ours - best | standard error of the difference |"
    yield "|---|---|---|---|---|"
    for task in tasks_of(rows):
        runs = {
            m: np.array(
                [
                    rate(r)
                    for r in sorted(rows, key=lambda r: (r["split"], r["trial"]))
                    if r["task"] == task and r["method"] == m
                ]
            )
            for m in ("hedgerow", *BASELINES)
        }
        best = min(BASELINES, key=lambda m: runs[m].mean())
        apart = runs["hedgerow"] - runs[best]
        majority = np.mean([100 * int(str(r["majority"])) / int(str(r["n"])) for r in rows if r["task"] == task])
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        yield f"| {task} | {majority:.2f} | {best} {runs[best].mean():.2f} | {apart.mean():+.2f} | {error:.2f} |"


def configuration() -> dict[str, object]:
    """Every constant of the learner."""
    names = ("TEMPERATURES", "PRIOR_WEIGHT", "RIDGE", "KEEP", "FLOOR", "MEMBERS", "SHARE")
    constants = {name: np.asarray(getattr(mixture, name)).tolist() for name in names}
    return {
        "preprocess": OWN_STEPS,
        "methods": {name: METHODS[name].spaces for name in ("hedgerow", "hedgerow-linear")},
        "spaces": {name: asdict(settings) for name, settings in SPACES.items()},
        "mixture": constants,
        "space": {"EPSILON": class_targets.EPSILON, "FADE": space.FADE},
        "pool": {name: getattr(pool, name) for name in ("TURN", "CIRCLE", "WORK")},
        "near": {"heads": NEAR, "TRUST": near.TRUST},
        "sizes": {name: asdict(each) for name, each in size.SIZES.items()},
        "balance": {name: getattr(balance, name) for name in ("SHARPNESS", "ROWS", "BELIEF", "STEP", "FIRST", "AGAIN")},
    }


def main(*given: str) -> None:
    for name, folder in (argument.split("=") for argument in given):
        (HERE / f"{name}.jsonl").write_text((Path(folder) / "results.jsonl").read_text())
    rows, removed, others = (lines(HERE / f"{name}.jsonl") for name in ("results", "ablation", "others"))
    (HERE / "RESULTS.md").write_text("\n".join(page(rows, removed, others)) + "\n")
    (HERE / "configuration.json").write_text(json.dumps(configuration(), indent=1) + "\n")
    ranking = ranking_of(rows)
    titles = {name: name for name in ranking.names}
    figure = critical_difference(ranking, titles, {name: i for i, name in enumerate(ranking.names)})
    figure.savefig(HERE / "ranks.svg", bbox_inches="tight")
    print((HERE / "RESULTS.md").read_text())


if __name__ == "__main__":
    main(*sys.argv[1:])
