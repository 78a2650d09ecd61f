"""JDA against the textbook solver on the paper's tasks, and against one eigendecomposition at a size beyond them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import naive
import numpy as np
from scipy.linalg import subspace_angles

from hedgerow.align import JDA
from hedgerow.core.preprocess import row_minmax
from hedgerow.paper.tasks import FAMILY_SETTINGS, TASKS, prepare
from speed import Row, row, seconds_of, side_by_side

DIM, ROUNDS = 100, 10


def measure() -> Iterator[Row]:
    """The large size first: the textbook solver takes its time."""
    yield large(classes=10)
    yield large(classes=68)
    for name in ("amazon", "PIE1"):
        yield task(name)


def task(name: str) -> Row:
    """All sources of a task, 10 rounds of `scipy.linalg.eig` on the m x m pencil against ours."""
    prepared = prepare(TASKS[name], 0, "table", os.environ.get("HEDGEROW_DATA"))
    lam = FAMILY_SETTINGS[TASKS[name].family]["lam"]
    target = row_minmax(prepared.warmup.X)
    seconds = {"textbook": 0.0, "ours": 0.0}
    angle, same = 0.0, True
    for source in prepared.sources:
        X, codes = row_minmax(source.X), np.unique(source.y, return_inverse=True)[1]
        found: dict[str, Any] = {}
        seconds["ours"] += side_by_side({"": lambda: found.update(ours=ours(X, codes, target, lam))}, repeats=3)[""]  # noqa: B023
        seconds["textbook"] += seconds_of(lambda: found.update(textbook=textbook(X, codes, target, lam)))  # noqa: B023
        angle = max(angle, float(np.sin(subspace_angles(found["ours"].projection.A, found["textbook"].A)).max()))
        same &= bool((found["ours"].info.pseudo_labels == found["textbook"].pseudo_labels[-1]).all())
        print(f"    {source.name}: {seconds['textbook']:.0f} s of the textbook solver so far", flush=True)
    return row(
        f"JDA, {ROUNDS} rounds, all sources of {TASKS[name].title}",
        ">= 20 x the textbook dense solver, same subspace to 1e-6, same pseudo-labels",
        [("ratio", ">=", 20.0), ("angle", "<=", 1e-6), ("same_labels", "==", True)],
        seconds,
        ratio=seconds["textbook"] / seconds["ours"],
        angle=angle,
        same_labels=same,
    )


def ours(X: Any, codes: Any, target: Any, lam: float) -> Any:
    """The library's."""
    return JDA(dim=DIM, lam=lam, rounds=ROUNDS).fit(X, codes, target)


def textbook(X: Any, codes: Any, target: Any, lam: float) -> Any:
    """The authors' operations."""
    return naive.jda(X, codes, target, DIM, lam, ROUNDS)


def large(classes: int, m: int = 4096, source_rows: int = 1500, target_rows: int = 1000) -> Row:
    """Rows whose variance falls like 1/j over the features, with classes too close to be told apart in one round."""
    rng = np.random.default_rng(0)
    falling = 1 / np.sqrt(np.arange(1, m + 1))
    codes = np.arange(source_rows) % classes
    centres = 0.15 * rng.normal(size=(classes, m))
    X = (centres[codes] + rng.normal(size=(source_rows, m))) * falling
    T = (
        centres[np.arange(target_rows) % classes] + rng.normal(size=(target_rows, m)) + 0.3 * rng.normal(size=m)
    ) * falling
    rows = naive.unit_rows(np.vstack([X, T]))
    rows -= rows.mean(axis=0)
    gram = rows @ rows.T
    found: dict[str, Any] = {}
    seconds = side_by_side(
        {
            "one eigendecomposition": lambda: np.linalg.eigh(gram),
            "ours": lambda: found.update(ours=ours(X, codes, T, 0.1)),
        },
        repeats=5,
        warm=0,
    )
    return row(
        f"JDA at m = {m}, N = {len(rows)}, K = {classes}",
        "< 2 x one dense symmetric eigendecomposition of the smaller Gram matrix",
        [("ratio", "<", 2.0)],
        seconds,
        ratio=seconds["ours"] / seconds["one eigendecomposition"],
        rounds=len(found["ours"].info.discrepancy),
    )
