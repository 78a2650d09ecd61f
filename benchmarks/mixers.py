"""The same experts under every mixer: mistakes, guarantees and time, on steady and on drifting streams.

    python benchmarks/mixers.py [--out out/mixers] [--tasks PIE3,PIE5,webcam,dslr] [--seeds 0,1] [--orders 3]
                                [--drift abrupt,gradual,recurring] [--methods oddm-fixed,oddm]
    python benchmarks/mixers.py --fold                  # only the tables, from the rows that are there

All get the input map of our own learner and the paper's settings by family, as in own_learner/run.py. Steady streams
are drawn anew by each seed. A drifting one switches to another domain of the family, which is then no source
(`hedgerow.study.drift`); its split is fixed, so a seed only adds orders. A row a run goes to OUT/mixers.jsonl, tables
in Markdown to stdout. Times are of the whole learner, and of one machine.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hedgerow import Domain
from hedgerow.core.labels import Codes
from hedgerow.experiment.alignment_cache import AlignmentCache
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.preparation import order_of
from hedgerow.methods import OWN_STEPS
from hedgerow.paper.tasks import FAMILY_SETTINGS, find_tasks, prepare
from hedgerow.study.drift import drifting
from hedgerow.study.scenarios import stream_task

MIXERS: dict[str, dict[str, Any]] = {
    "hedge, horizon": {"mixer": "hedge", "horizon": True},
    "hedge, anytime": {"mixer": "hedge"},
    "adahedge": {"mixer": "adahedge"},
    "squint": {"mixer": "squint"},
    "fixed-share": {"mixer": "fixed-share"},
    "hedge, horizon, vote": {"mixer": "hedge", "horizon": True, "combine": "vote"},
    "hedge, anytime, vote": {"mixer": "hedge", "combine": "vote"},
    "adahedge, vote": {"mixer": "adahedge", "combine": "vote"},
    "squint, vote": {"mixer": "squint", "combine": "vote"},
    "fixed-share, vote": {"mixer": "fixed-share", "combine": "vote"},
    "log-loss": {"mixer": "log-loss"},
    "fixed-share, simplex": {"mixer": "fixed-share", "combine": "simplex"},
}
FILE = "mixers.jsonl"
BEST = "(the best expert)"
OPTIONS = {"preprocess": OWN_STEPS, "eigenvectors": "S", "unseen": "skip"}


class Case(NamedTuple):
    """What a learner is fitted on, and its stream in several orders."""

    name: str
    family: str
    sources: list[Domain]
    together: Any
    warmup: Domain
    target: Domain
    lines: list[Any]


def cases(given: argparse.Namespace) -> Iterator[tuple[str, Case]]:
    """(column of the table, case)."""
    seeds = [int(seed) for seed in given.seeds.split(",")]
    for task in find_tasks(given.tasks):
        for seed in seeds:
            ready = prepare(task, seed, "general", given.data_dir)
            lines = [order_of(order, len(ready.stream)) for order in range(given.orders)]
            place = task.name, task.family, list(ready.sources), ready.together, ready.warmup, ready.stream
            yield task.title, Case(*place, lines)
        for kind in filter(None, given.drift.split(",")):
            made = drifting(kind)(stream_task(task.family, task.name, given.data_dir))
            lines = [made.arrivals(order).rows for order in range(given.orders * len(seeds))]
            place = f"{task.name}, {kind}", task.family, list(made.sources), made.together, made.unlabelled, made.target
            yield f"{task.title}, {kind}", Case(*place, lines)


def runs(method: str, case: Case, cache: AlignmentCache) -> Iterator[dict[str, Any]]:
    """Every mixer on every order; the experts' alignments are solved once."""
    options = FAMILY_SETTINGS[case.family] | OPTIONS
    for label, chosen in MIXERS.items():
        horizon = len(case.lines[0]) if chosen.get("horizon") else None
        clf = classifier(method, "general", **options | chosen | {"horizon": horizon})
        clf.fit_domains(case.sources, case.warmup, together=case.together, align=cache)
        for order, rows in enumerate(case.lines):
            model = copy.deepcopy(clf)
            codes = Codes(model.classes_).of(np.asarray(case.target.y)[rows])
            began = time.perf_counter()
            trace = model.learner_.run(case.target.X[rows], codes)
            seconds = time.perf_counter() - began
            on_mistakes = model.guarantee_.startswith("mistakes")
            yield {
                "method": method, "mixer": label, "case": case.name, "order": order, "n": len(codes),
                "mistakes": model.mistakes_, "best_expert": int(model.learner_.state["expert_mistakes"].min()),
                "bound": model.bound_, "guarantee": model.guarantee_,
                "suffered": model.mistakes_ if on_mistakes else model.hedge_loss_, "seconds": seconds,
                "in_use": in_use(trace.weights),
            }  # fmt: skip


def in_use(weights: np.ndarray) -> float:
    """exp(entropy of the weights), the mean over the stream: as many equal weights would be as even."""
    return float(np.exp(-(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=1)).mean())


def table(rows: list[dict[str, Any]], title: str, value: str) -> None:
    """Means over splits and orders: a row a mixer, a column a stream; the least of a column is bold."""
    columns = list(dict.fromkeys(row["column"] for row in rows))
    names = list(dict.fromkeys(row["mixer"] for row in rows))
    cells = np.array(
        [[np.mean([r[value] for r in rows if r["mixer"] == m and r["column"] == c]) for c in columns] for m in names]
    )
    cells = np.column_stack([cells, cells.mean(axis=1)])
    print(f"\n### {title}\n\n| mixer | {' | '.join(columns)} | average |\n{'|---' * (len(columns) + 2)}|")
    for name, line in zip(names, cells, strict=True):
        shown = [
            f"**{x:.2f}**" if x <= least + 5e-3 else f"{x:.2f}" for x, least in zip(line, cells.min(0), strict=True)
        ]
        print(f"| {name} | {' | '.join(shown)} |")


def summary(rows: list[dict[str, Any]], methods: list[str]) -> None:
    """A row a mixer: averages over the columns of the tables, and the median time of an instance beside Hedge's."""
    head = [f"{m}, {kind}: {what}" for m in methods for kind in ("steady", "drift") for what in ("mistakes", "bound")]
    names = list(dict.fromkeys(row["mixer"] for row in rows))
    print("\n### Averages, % of the stream; time: microseconds an instance more than the first mixer's\n")
    print(f"| mixer | {' | '.join(head)} | experts in use | time |\n{'|---' * (len(head) + 3)}|")
    base = float(np.median([row["us"] for row in rows if row["mixer"] == names[0]]))
    for name in names:
        own = [row for row in rows if row["mixer"] == name]
        cells = []
        for method in methods:
            for drift in (False, True):
                some = [row for row in own if row["method"] == method and ("," in row["case"]) == drift]
                cells += [f"{_average(some, value):.1f}" if some else "-" for value in ("rate", "promised")]
        time_more = float(np.median([row["us"] for row in own])) - base
        print(f"| {name} | {' | '.join(cells)} | {np.mean([row['in_use'] for row in own]):.1f} | {time_more:+.0f} |")


def _average(rows: list[dict[str, Any]], value: str) -> float:
    columns = {row["column"] for row in rows}
    return float(np.mean([np.mean([row[value] for row in rows if row["column"] == c]) for c in columns]))


def measured(given: argparse.Namespace, out: Path) -> list[dict[str, Any]]:
    """All runs, each written down when it is done."""
    cache = AlignmentCache(out / "cache")
    rows = []
    with open(out / FILE, "w") as file:
        for column, case in cases(given):
            for method in given.methods.split(","):
                for row in runs(method, case, cache):
                    n = row["n"]
                    row |= {"column": column, "rate": 100 * row["mistakes"] / n, "promised": 100 * row["bound"] / n}
                    row["us"] = 1e6 * row["seconds"] / n
                    rows.append(row)
                    print(json.dumps(row), file=file, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="out/mixers")
    parser.add_argument("--tasks", default="PIE3,PIE5,webcam,dslr")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--drift", default="abrupt,gradual,recurring")
    parser.add_argument("--methods", default="oddm-fixed,oddm")
    parser.add_argument("--data-dir", default=os.environ.get("HEDGEROW_DATA"))
    parser.add_argument("--fold", action="store_true", help="only the tables, from the rows of an earlier run")
    given = parser.parse_args()
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in (out / FILE).read_text().splitlines()] if given.fold else measured(given, out)
    broken = [row for row in rows if row["suffered"] > row["bound"] + 1e-9]
    print(f"{len(rows)} runs; guarantees broken: {len(broken)}")
    methods = given.methods.split(",")
    for method in methods:
        for kind, drift in (("steady", False), ("drifting", True)):
            some = [row for row in rows if row["method"] == method and ("," in row["case"]) == drift]
            if some:
                best = [row | {"mixer": BEST, "rate": 100 * row["best_expert"] / row["n"]} for row in some]
                table([*best, *some], f"{method}, {kind}: mistakes, %", "rate")
                table(some, f"{method}, {kind}: the bound, % of the stream", "promised")
    summary(rows, methods)


if __name__ == "__main__":
    main()
