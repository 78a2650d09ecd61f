"""ODDM replayed over a whole stream against the authors' operations, and its share of the machine's limit."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import naive_online
import numpy as np

from speed import OFFICE, PIE, Row, Size, domains, gemm_rate, row, side_by_side

TO_REACH = {"PIE": 300, "Office+Caltech": 400}
NAIVE_WINDOWS = {"PIE": 2, "Office+Caltech": 5}  # of the stream: the naive form takes as long for each
CHECKED = 200  # predictions that are compared
REPEATS = 5


def measure() -> Iterator[Row]:
    """Both sizes: the ratio, then the share."""
    for size in (PIE, OFFICE):
        clf, X, y = start(size)
        few = NAIVE_WINDOWS[size.name] * size.every
        models = [copy.deepcopy(clf) for _ in range(REPEATS + 1)]
        times = side_by_side(
            {
                "naive": lambda clf=clf, X=X, y=y, few=few: naive_online.replay(clf.learner_, X[:few], y[:few]),
                "ours": lambda models=models, X=X, y=y: models.pop().predict_then_learn(X, y),
            },
            REPEATS,
        )
        seconds = {"naive": times["naive"] / few, "ours": times["ours"] / len(X)}
        expected = naive_online.replay(clf.learner_, X[:CHECKED], y[:CHECKED])
        found = clf.predict_then_learn(X[:CHECKED], y[:CHECKED])
        yield row(
            f"online replay, ODDM, {size.name} size, an instance",
            f">= {TO_REACH[size.name]} x naive, predictions identical",
            [("ratio", ">=", TO_REACH[size.name]), ("different", "==", 0)],
            seconds,
            ratio=seconds["naive"] / seconds["ours"],
            different=int((expected != found).sum()),
        )
        yield share(size, y, clf.learner_.block, seconds["ours"])


def share(size: Size, y: Any, block: int, seconds: float) -> Row:
    """Flops that the block form needs over what one large matrix product does in the same time."""
    rate, needed, moved = gemm_rate(), flops(size, y, block), traffic(size, block)
    limits = [("share", ">=", 0.5)] if size is PIE else []
    return row(
        f"share of the limit, ODDM replay, {size.name} size",
        ">= 50 % of a matrix product's rate" if limits else "reported",
        limits,
        {"an instance": seconds},
        unit="",
        share=needed / (rate * seconds),
        flops=needed,
        rate=rate,
        roofline={"flops": needed, "bytes": moved, "seconds": seconds, "name": f"ODDM replay, {size.name}"},
    )


def flops(size: Size, y: Any, block: int) -> float:
    """Of the block form, an instance: two a multiplication and its addition.

    A block's rows meet H, the means and sums, and the class sums of earlier windows; the class sums of a window meet
    each other, and H takes in all; every window factorises and solves n systems of K + 1; every head scores.
    """
    m, K1, d, n, T_w = size.m, size.K + 1, size.d, size.n, size.every
    windows = y[: len(y) // T_w * T_w].reshape(-1, T_w)
    sums = float(np.mean([len(set(window)) for window in windows.tolist()]))  # class sums a window
    earlier = sums * (block / T_w - 1) / 2
    rows = 2 * m * (n * d + (n + 1) * K1 + earlier)
    corrected = 2 * n * d * (2 * K1 + earlier)
    joined = m * sums * (sums + 2 * n * d) / T_w
    solved = n * (K1**3 / 3 + 4 * K1**2 * d) / T_w
    heads = 2 * 2 * n * size.K * d
    return rows + corrected + joined + solved + heads


def traffic(size: Size, block: int) -> float:
    """Bytes an instance that must come from or go to memory: a block reads and writes H, reads means and its rows."""
    m, K, d, n = size.m, size.K, size.d, size.n
    return 8 * (m + (2 * m * n * d + m * (n + 1) * (K + 1)) / block)


def start(size: Size, dtype: Any = np.float64) -> tuple[Any, Any, Any]:
    """ODDM after its offline stage, as the authors run it; the stream."""
    from hedgerow import OnlineTransferClassifier
    from hedgerow.align import JDA
    from hedgerow.methods import reading_of

    sources, warmup, stream = domains(size, rows=max(400, 8 * size.K), warmup=200, dtype=dtype)
    reading = reading_of("authors", refresh_every=size.every)
    aligner = JDA(dim=size.d, rounds=1, lam=reading.lam, eigenvectors=reading.eigenvectors)
    clf = OnlineTransferClassifier(
        "oddm", reading=reading, preprocess=(), aligner=aligner, horizon=size.stream, classes=np.arange(size.K)
    )
    return clf.fit_domains(sources, warmup), np.ascontiguousarray(stream.X), np.asarray(stream.y)
