"""`hedgerow warm`: precompile the kernels into the cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array

REMEDY = (
    "error: nothing could be kept, so every process will compile again. Run this as a user who can write to the "
    "package's folder (in an image: before the user changes), or set NUMBA_CACHE_DIR or XDG_CACHE_HOME to a folder of "
    "your own that others cannot write."
)
PROCESSOR = "They serve this kind of processor. For any other, set NUMBA_CPU_NAME=generic now and at run time."


def warm(progress: Callable[[int, int, str], None]) -> tuple[list[str], int]:
    """A small fit and stream of every method, in both precisions, and a fleet: what to print, and the exit code."""
    from hedgerow.kernels.compiled import folders, statistics
    from hedgerow.methods import METHODS

    began = time.perf_counter()
    kinds: list[tuple[str, dict[str, Any]]] = [*((method, {}) for method in METHODS), ("oddm", {"head": "arow"})]
    runs = [(method, options, dtype) for method, options in kinds for dtype in (np.float64, np.float32)]
    for done, (method, options, dtype) in enumerate(runs):
        progress(done, len(runs), f"{method}, {np.dtype(dtype)}")
        _stream(method, options, dtype)
    _batch()
    progress(len(runs), len(runs), "done")
    compilations, loaded, unsaved = statistics()
    kept = [f"not written: {folder}: {why}" if why else f"kept in {folder}" for folder, why in folders().items()]
    told = f"{compilations} kernels compiled, {loaded} found compiled, {time.perf_counter() - began:.1f} s"
    return [told, *kept, REMEDY if unsaved else PROCESSOR], 1 if unsaved else 0


def _stream(method: str, options: dict[str, Any], dtype: type) -> None:
    """Row by row, long enough for what happens every fifty labels; then in blocks, without weights and with."""
    from hedgerow import OnlineTransferClassifier

    X: Array = np.random.default_rng(0).normal(size=(180, 12)).astype(dtype)
    y = np.arange(180) % 3
    clf = OnlineTransferClassifier(method, **options).fit(X, y, sample_domain=np.repeat([0, 1, -1], 60))
    target, labels = X[120:], y[120:]
    for x, label in zip(target, labels, strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)
    clf.predict(target)
    clf.predict_then_learn(target, labels)
    clf.partial_fit(target, labels, sample_weight=np.full(len(labels), 0.5))


def _batch() -> None:
    """A batch of mixed keys; its preprocessing has every kind of running statistics that rows of numbers may have."""
    from hedgerow import Domain
    from hedgerow.fleet import Fleet

    X: Array = np.random.default_rng(0).normal(size=(60, 12))
    y = np.arange(60) % 3
    with Fleet([Domain("a", X[:30], y[:30]), Domain("b", X[30:], y[30:])], preprocess=("zscore", "centre")) as fleet:
        fleet.predict(range(6), X[:6])
        fleet.learn(range(6), X[:6], y[:6])
