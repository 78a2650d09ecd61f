"""Does solving JDA again with the true labels beat shrinking along the gaps? Both against no refresh at all.

    python benchmarks/refresh_rules.py --out out/refresh [--tasks PIE3,PIE5,webcam,dslr] [--seeds 0,1] [--orders 3]

Every T_w labels the pencil (S, lam I + V V^T) has the same S, the scatter of a source and the warm-up rows, and a new
V of rank K + 1: the weighted gaps between the means of the source and those of what the target has shown. With
S = R R^T kept, a new solution is the leading part of diag(L) - F F^T. Choices that the idea leaves open:

| choice  | value        | meaning                                                                                   |
|---------|--------------|-------------------------------------------------------------------------------------------|
| classes | `labels`     | class gaps from the labels of the stream                                                  |
|         | `pseudo`     | from these and from the warm-up rows, labelled by the present mixture                     |
| weight  | `skip`       | a class that was not seen has no gap                                                      |
|         | `shrink`     | the gap of class k counts n_k/(n_k + kappa)                                               |
| heads   | `procrustes` | the new axes are turned so that the rows of S move least; the heads keep their weights    |
|         | `transport`  | the heads' weights are fitted to their old scores on the rows of S                        |
|         | `retrain`    | all heads are trained again, in the new space, on all rows so far (which must be kept)     |

Inputs: "general" is the reading of that name; "own" the input map of our own method, with a^T S a = 1, which suits it.
A row a finished run goes to OUT/results.jsonl; what is there is skipped; the table is printed at the end. Each task
also says how far the low-rank solution is from the dense one (the sine of the largest angle between the subspaces).
"""

from __future__ import annotations

import argparse
import json
import os
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from hedgerow.core.arrays import Array, dense
from hedgerow.core.labels import Codes
from hedgerow.core.linalg import diagonal_minus_low_rank
from hedgerow.core.moments import KAPPA, Moments
from hedgerow.core.preprocess import Preprocess, unit
from hedgerow.experiment import results
from hedgerow.experiment.alignment_cache import AlignmentCache
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.preparation import Prepared, order_of
from hedgerow.heads import train
from hedgerow.learners.experts.learner import Learner
from hedgerow.methods import OWN_STEPS
from hedgerow.paper.tasks import FAMILY_SETTINGS, TASKS, find_tasks, prepare

INPUTS: dict[str, dict[str, object]] = {
    "general": {},
    "own": {"preprocess": OWN_STEPS, "eigenvectors": "S"},
}
GAPS = ("zero", "skip", "shrink")
RESOLVES = (
    ("labels", "skip", "procrustes"),
    ("labels", "skip", "transport"),
    ("labels", "skip", "retrain"),
    ("labels", "shrink", "procrustes"),
    ("pseudo", "skip", "procrustes"),
)
RULES = ["none", *(f"gaps, {u}" for u in GAPS), *(f"resolve, {', '.join(choice)}" for choice in RESOLVES)]


class Pencil(NamedTuple):
    """S = R R^T with R^T R = diag(L) (largest first), the scatter of the rows of one source and of the warm-up."""

    R: Array
    L: Array

    @classmethod
    def of(cls, rows: Array) -> Pencil:
        _, s, Vt = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        kept = s > 1e-10 * s[0]
        return cls(Vt[kept].T * s[kept], s[kept] ** 2)

    def solve(self, V: Array, lam: float, dim: int, scaling: str) -> Array:
        """The `dim` best of S a = value (lam I + V V^T) a, as columns."""
        C = np.linalg.cholesky(lam * np.eye(V.shape[1]) + V.T @ V)
        F = scipy.linalg.solve_triangular(C, V.T @ self.R, lower=True).T
        values, Y = diagonal_minus_low_rank(self.L, F, min(dim, len(self.L)))
        B = self.R @ Y
        A = (B - V @ scipy.linalg.cho_solve((C, True), V.T @ B)) / lam
        return A / (np.linalg.norm(A, axis=0) if scaling == "unit" else values / lam)


def weighted_gaps(source: Moments, target: Moments, rule: str) -> Array:
    """V (m x K+1): JDA's mean gaps, w_0 = K and w_k = 1 times the rule's weight, M over its Frobenius norm."""
    ns, nt = source.class_counts, target.class_counts
    used = (ns > 0) & (nt > 0)
    wc = (nt / (nt + KAPPA) if rule == "shrink" else np.ones(len(nt)))[used]
    w0 = float((ns > 0).sum())
    gaps = np.vstack([source.mean - target.mean, (source.class_means - target.class_means)[used]])
    corner = w0 * (1 / source.count[0] + 1 / target.count[0])
    cross = np.sqrt(w0 * wc) * (1 / source.count[0] + 1 / target.count[0])
    diagonal = wc * (1 / ns[used] + 1 / nt[used])
    size = np.sqrt(corner**2 + 2 * (cross**2).sum() + (diagonal**2).sum())
    return np.asarray((gaps * np.sqrt(np.concatenate([[w0], wc]) / size)[:, None]).T)


class Problem(NamedTuple):
    """What all runs of one split and input share."""

    prepared: Prepared
    options: dict[str, Any]
    sources: list[Array]
    codes: list[Array]
    warmup: Array
    pencils: list[Pencil]

    @classmethod
    def of(cls, task: str, seed: int, given: str, data_dir: str | None) -> Problem:
        prepared = prepare(TASKS[task], seed, "general", data_dir)
        options = {**FAMILY_SETTINGS[TASKS[task].family], **INPUTS[given], "horizon": len(prepared.stream)}
        clf = classifier("pa", "general", **options).fit_domains(prepared.sources, prepared.warmup)
        Xs, U = Preprocess(clf.learner_.plan.steps).start([s.X for s in prepared.sources], prepared.warmup.X)
        X, warmup = [dense(x) for x in Xs], dense(U)
        codes = [Codes(clf.classes_).of(np.asarray(s.y)) for s in prepared.sources]
        return cls(prepared, options, X, codes, warmup, [Pencil.of(unit(np.vstack([x, warmup]))) for x in X])


class Resolver:
    """Solves again between two windows of a stream that a learner without a refresh runs through."""

    def __init__(self, learner: Learner, problem: Problem, classes: str, weight: str, heads: str) -> None:
        self.learner, self.problem = learner, problem
        self.classes, self.weight, self.heads = classes, weight, heads
        self.seen: list[tuple[Array, Array]] = []
        self.angle: float | None = None

    def run(self, X: Array, y: Array) -> Array:
        predictions = []
        every = self.problem.options["refresh_every"]
        for start in range(0, len(y), every):
            rows, labels = X[start : start + every], y[start : start + every]
            now = {name: array.copy() for name, array in self.learner.state.items() if name.startswith("pre.")}
            pre = Preprocess.of_arrays(self.learner.plan.steps, now)
            self.seen.append((dense(pre.fold(rows, np.ones(len(rows), dtype=bool))), labels))
            predictions.append(self.learner.run(rows, labels).predictions)
            self.refresh()
        return np.concatenate(predictions)

    def refresh(self) -> None:
        learner, target, options = self.learner, self.target(), self.problem.options
        A = learner.spaces.A.transpose(1, 0, 2).copy()
        for i, pencil in enumerate(self.problem.pencils):
            V = weighted_gaps(learner.source(i), target, self.weight)
            old = A[i].copy()
            A[i] = pencil.solve(V, options["lam"], old.shape[1], options.get("eigenvectors", "unit"))
            if self.angle is None:
                self.angle = distance_to_dense(pencil, V, options["lam"], A[i])
            if self.heads == "procrustes":
                u, _, vt = np.linalg.svd((pencil.R.T @ A[i]).T @ (pencil.R.T @ old))
                A[i] = A[i] @ (u @ vt)
            for e, expert in enumerate(learner.plan.experts):
                if expert.space == i:
                    self.move(e, i, old, A[i])
        learner.spaces.A = np.ascontiguousarray(A.transpose(1, 0, 2))
        learner.flush()

    def target(self) -> Moments:
        target = self.learner.target
        if self.classes == "labels":
            return target
        pseudo = self.learner.scores(self.problem.prepared.warmup.X).argmax(axis=1)
        parts = [*self.seen, (self.problem.warmup, pseudo)]
        return reduce(Moments.merge, (Moments.of(rows, y, self.learner.n_classes) for rows, y in parts))

    def move(self, e: int, i: int, old: Array, A: Array) -> None:
        """The head's weights in the new space."""
        learner, pencil = self.learner, self.problem.pencils[i]
        if self.heads == "transport":
            T = np.linalg.lstsq(pencil.R.T @ A, pencil.R.T @ old, rcond=None)[0]
            learner.W[e] = learner.W[e] @ T.T
        elif self.heads == "retrain":
            learns = learner.plan.experts[e].learns
            rows = np.vstack([rows for rows, _ in self.seen]) if learns else self.problem.sources[i]
            y = np.concatenate([y for _, y in self.seen]) if learns else self.problem.codes[i]
            how = "last" if learns else "average"
            learner.W[e] = train(learner.plan.head, unit(rows @ A), y, learner.n_classes, how)


def distance_to_dense(pencil: Pencil, V: Array, lam: float, A: Array) -> float:
    """The sine of the largest angle to what the dense generalised eigenproblem of the same pencil gives."""
    m = len(V)
    S, P = pencil.R @ pencil.R.T, V @ V.T + lam * np.eye(m)
    exact = scipy.linalg.eigh(S, P, subset_by_index=[m - A.shape[1], m - 1])[1]
    return float(np.sin(scipy.linalg.subspace_angles(exact, A)).max())


def work(problem: Problem, rule: str, trial: int, cache: AlignmentCache) -> dict[str, Any]:
    prepared = problem.prepared
    kind, *choice = rule.split(", ")
    more = {"unseen": choice[0]} if kind == "gaps" else {}
    clf = classifier("oddm" if kind == "gaps" else "oddm-fixed", "general", **problem.options, **more)
    clf.fit_domains(prepared.sources, prepared.warmup, together=prepared.together, align=cache)
    order = order_of(trial, len(prepared.stream))
    X, y = prepared.stream.X[order], Codes(clf.classes_).of(np.asarray(prepared.stream.y)[order])
    if kind != "resolve":
        return {"mistakes": int((clf.learner_.run(X, y).predictions != y).sum()), "n": len(y), "angle": None}
    assert isinstance(clf.learner_, Learner)
    resolver = Resolver(clf.learner_, problem, *choice)
    return {"mistakes": int((resolver.run(X, y) != y).sum()), "n": len(y), "angle": resolver.angle}


def lines(out: str) -> list[dict[str, Any]]:
    path = Path(out) / results.FILE
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.is_file() else []


def table(rows: list[dict[str, Any]], methods: list[str], column: str) -> None:
    """Mistakes in %, mean over splits and orders, a table for each input."""
    for given in dict.fromkeys(r["variant"] for r in rows):
        mine = [r for r in rows if r["variant"] == given]
        tasks = [t for t in TASKS if any(r["task"] == t for r in mine)]
        print(f"\n## input: {given}\n\n| {column} | {' | '.join(TASKS[t].title for t in tasks)} | average |")
        print("|---" * (len(tasks) + 2) + "|")
        for name in methods:
            cells = [
                [100 * r["mistakes"] / r["n"] for r in mine if (r["task"], r["method"]) == (t, name)] for t in tasks
            ]
            if all(cells):
                means = [float(np.mean(c)) for c in cells]
                print(f"| {name} | {' | '.join(f'{c:.2f}' for c in means)} | {np.mean(means):.2f} |")


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What a run over tuning tasks is asked."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--tasks", default="dslr,webcam,PIE5,PIE3")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--data-dir", default=os.environ.get("HEDGEROW_DATA"))
    return parser


def main() -> None:
    given = arguments(__doc__).parse_args()
    Path(given.out).mkdir(parents=True, exist_ok=True)
    results.mend(given.out)
    there = {(r["task"], r["split"], r["variant"], r["method"], r["trial"]) for r in lines(given.out)}
    cache = AlignmentCache(Path(given.out) / "cache")
    for seed, task, name in product(map(int, given.seeds.split(",")), find_tasks(given.tasks), INPUTS):
        todo = [(rule, t) for rule in RULES for t in range(given.orders)]
        todo = [(rule, t) for rule, t in todo if (task.name, seed, name, rule, t) not in there]
        problem = Problem.of(task.name, seed, name, given.data_dir) if todo else None
        for rule, trial in todo:
            row = {
                "group": "refresh",
                "task": task.name,
                "split": seed,
                "variant": name,
                "method": rule,
                "trial": trial,
            }
            results.append(given.out, row | work(problem, rule, trial, cache))
            print(f"{task.title}, split {seed}, input {name}, order {trial}: {rule}", flush=True)
    rows = lines(given.out)
    table(rows, RULES, "refresh")
    worst = max((r["angle"] for r in rows if r["angle"] is not None), default=0.0)
    print(f"\nLargest sine between the low-rank and the dense solution: {worst:.1e}")


if __name__ == "__main__":
    main()
