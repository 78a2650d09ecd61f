"""Our learner against every method of the paper given the same input: nine tasks, fresh splits, several orders.

    python benchmarks/own_learner/run.py --out out/own [--seeds 20,21,22,23,24] [--orders 5] [--tasks all] [--jobs 2]
    python benchmarks/own_learner/run.py --out out/others --data amazon-reviews,digits --seeds 10,11 --orders 3
    python benchmarks/own_learner/run.py --out out/ablation --ablate --seeds 10,11 --orders 2   # ours without each part

Everybody gets the input map of our method (square roots and unit length for non-negative data, else a scale; each
domain about its own mean, the target's running). A row a finished run goes to OUT/results.jsonl; what is there is
skipped. `table.py OUT` folds the rows. The configuration is frozen: it was chosen on PIE3, PIE5, Webcam and DSLR with
seeds 0-4 only.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from ablations import ABLATIONS, without
from joblib import Parallel, delayed, parallel_config

from hedgerow import OnlineTransferClassifier
from hedgerow.core.labels import Codes
from hedgerow.data import load
from hedgerow.experiment import results
from hedgerow.experiment.alignment_cache import AlignmentCache
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.preparation import order_of
from hedgerow.methods import OWN_STEPS
from hedgerow.paper.tasks import FAMILY_SETTINGS, TASKS, Task, find_tasks, prepare

EARLY = 50
BINS = 15
SMALL = "hedgerow, small"
OURS = ("hedgerow", "hedgerow-linear", SMALL)
BASELINES: dict[str, dict[str, object]] = {
    "pa": {},
    "paio": {"source_pass": "last"},
    "paio, averaged": {"source_pass": "average"},
    "homotl-1": {},
    "homotl-2": {},
    "homotlms": {},
    "oddm-fixed": {"eigenvectors": "S"},
    "oddm-fixed, unit": {"eigenvectors": "unit"},
    "oddm": {"eigenvectors": "S", "unseen": "skip"},
    "oddm, zero": {"eigenvectors": "S", "unseen": "zero"},
}


def task_of(name: str) -> Task:
    """A task of the paper, or "data/target" of any other data set, all other domains its sources."""
    if name in TASKS:
        return TASKS[name]
    data, target = name.split("/")
    return Task(target, target, data)


@contextmanager
def configuration(label: str, family: str, length: int) -> Iterator[OnlineTransferClassifier]:
    """The classifier of a row of the table; C, mu, T_w and lam of the paper's methods are the paper's."""
    if label in ABLATIONS:
        with without(label) as clf:
            yield clf
    elif label in BASELINES:
        options = {"preprocess": OWN_STEPS, "horizon": length, **FAMILY_SETTINGS.get(family, {}), **BASELINES[label]}
        yield classifier(label.split(",")[0], "general", **options)
    elif label == SMALL:
        yield OnlineTransferClassifier(size="small")
    else:
        yield OnlineTransferClassifier(label)


def expected_calibration_error(p: np.ndarray, right: np.ndarray) -> float:
    """sum over bins of |mean confidence - share right| times the bin's share."""
    top = p.max(axis=1)
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    return float(
        sum(abs(top[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins))
    )


def work(task: str, label: str, seed: int, orders: list[int], out: str, data_dir: str | None) -> int:
    from threadpoolctl import threadpool_limits

    prepared = prepare(task_of(task), seed, "general", data_dir)
    with threadpool_limits(1), configuration(label, task_of(task).family, len(prepared.stream)) as clf:
        began = time.perf_counter()
        cache = AlignmentCache(Path(out) / "cache")
        clf.fit_domains(prepared.sources, prepared.warmup, together=prepared.together, align=cache)
        offline = time.perf_counter() - began
        for trial in orders:
            model = copy.deepcopy(clf)
            order = order_of(trial, len(prepared.stream))
            codes = Codes(model.classes_).of(np.asarray(prepared.stream.y)[order])
            began = time.perf_counter()
            trace = model.learner_.run(prepared.stream.X[order], codes)
            seconds = time.perf_counter() - began
            wrong = trace.predictions != codes
            results.append(
                out,
                {
                    "group": "own",
                    "task": task,
                    "method": label,
                    "variant": "",
                    "split": seed,
                    "trial": trial,
                    "mistakes": int(wrong.sum()),
                    "early": int(wrong[:EARLY].sum()),
                    "n": len(codes),
                    "majority": int((codes != np.bincount(codes).argmax()).sum()),
                    "calibration": expected_calibration_error(model.learner_.probabilities(trace.scores), ~wrong),
                    "bound": model.bound_ if np.isfinite(model.bound_) else None,
                    "seconds_offline": offline,
                    "seconds_online": seconds,
                    "data": prepared.checksum,
                },
            )
    return len(orders)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seeds", default="20,21,22,23,24")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--tasks", default="all")
    parser.add_argument(
        "--data", default="", help="data sets other than the paper's, with all their domains as targets"
    )
    parser.add_argument("--methods", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data-dir", default=os.environ.get("HEDGEROW_DATA"))
    parser.add_argument("--ablate", action="store_true")
    given = parser.parse_args()
    Path(given.out).mkdir(parents=True, exist_ok=True)
    results.mend(given.out)
    labels = ["hedgerow", *ABLATIONS] if given.ablate else [*OURS, *BASELINES]
    if given.methods:
        labels = given.methods.split(";")
    others = [f"{data}/{name}" for data in given.data.split(",") if data for name in load(data, given.data_dir)]
    tasks = others or [task.name for task in find_tasks(given.tasks)]
    there = {(r["task"], r["method"], r["split"], r["trial"]) for r in lines(Path(given.out) / results.FILE)}
    jobs = []
    for seed in map(int, given.seeds.split(",")):
        for task in tasks:
            for label in labels:
                todo = [t for t in range(given.orders) if (task, label, seed, t) not in there]
                if todo:
                    jobs.append((task, label, seed, todo))
    done, total, began = 0, sum(len(job[3]) for job in jobs), time.perf_counter()
    with parallel_config(backend="loky", n_jobs=given.jobs, inner_max_num_threads=1):
        calls = (delayed(work)(*job, given.out, given.data_dir) for job in jobs)
        for finished in Parallel(return_as="generator_unordered")(calls):
            done += finished
            spent = time.perf_counter() - began
            print(f"{done}/{total} runs, about {spent / done * (total - done):.0f} s left", flush=True)


def lines(path: Path) -> list[dict[str, object]]:
    """The rows of a results file; none if it is not there."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.is_file() else []


if __name__ == "__main__":
    main()
