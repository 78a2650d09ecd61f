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
    """A small fit and stream of every method, in both precisions: what to print, and the exit code."""
    from hedgerow.kernels.compiled import folders, statistics

    began, runs = time.perf_counter(), _runs()
    for done, (method, options, dtype) in enumerate(runs):
        progress(done, len(runs), f"{method}, {np.dtype(dtype)}")
        _stream(method, options, *_rows(dtype))
    progress(len(runs), len(runs), "done")
    compilations, loaded, unsaved = statistics()
    lines = [f"{compilations} kernels compiled, {loaded} found compiled, {time.perf_counter() - began:.1f} s"]
    lines += [
        f"not written: {folder}: {reason}" if reason else f"kept in {folder}" for folder, reason in folders().items()
    ]
    return [*lines, REMEDY if unsaved else PROCESSOR], 1 if unsaved else 0


def _runs() -> list[tuple[str, dict[str, Any], type]]:
    from hedgerow.methods import METHODS

    kinds: list[tuple[str, dict[str, Any]]] = [*((method, {}) for method in METHODS), ("oddm", {"head": "arow"})]
    return [(method, options, dtype) for method, options in kinds for dtype in (np.float64, np.float32)]


def _rows(dtype: type) -> tuple[Array, Array, Array]:
    """Two sources and a target of 60 rows each."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(180, 12)).astype(dtype), np.arange(180) % 3, np.repeat([0, 1, -1], 60)


def _stream(method: str, options: dict[str, Any], X: Array, y: Array, domain: Array) -> None:
    """Row by row, long enough for what happens every fifty labels; then in blocks, without weights and with."""
    from hedgerow import OnlineTransferClassifier

    clf = OnlineTransferClassifier(method, **options).fit(X, y, sample_domain=domain)
    target, labels = X[domain < 0], y[domain < 0]
    for x, label in zip(target, labels, strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)
    clf.predict(target)
    clf.predict_then_learn(target, labels)
    clf.partial_fit(target, labels, sample_weight=np.full(len(labels), 0.5))
