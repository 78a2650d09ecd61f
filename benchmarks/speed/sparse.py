"""Text-like rows: 100 nonzeros each, of up to a million features. The live path, and the memory of a refresh."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.experiment.classifiers import classifier
from speed import Row, row, slope

NONZEROS, SOURCES, DIM, CLASSES = 100, 3, 100, 10
FEATURES = (10_000, 100_000, 1_000_000)
DENSER = (50, 100, 200, 400)
ROWS, WARMUP, STREAM = 200, 100, 300
EVERY = 50


class Model(NamedTuple):
    """A fitted model, its stream row by row, and what its offline stage took."""

    clf: OnlineTransferClassifier
    rows: list[Any]
    labels: list[int]
    seconds: float


def measure() -> Iterator[Row]:
    """The same kind of stream for every number of features, then for every number of nonzeros."""
    live, offline = [], []
    for m in FEATURES:
        model = fitted(m, NONZEROS)
        offline.append(model.seconds)
        live.append(step_seconds(model))
        if m == FEATURES[1]:
            yield refresh_memory(model, m)
        del model
    yield row(
        f"sparse live path, {NONZEROS} nonzeros a row, m = 1e4, 1e5, 1e6",
        "cost does not grow with m: log-log slope <= 0.2",
        [("slope", "<=", 0.2)],
        {f"m = {m}": seconds for m, seconds in zip(FEATURES, live, strict=True)},
        unit="",
        slope=slope(FEATURES, live),
        offline=offline,
        curve=curve("features m", FEATURES, live, f"{NONZEROS} nonzeros a row"),
    )
    live = [step_seconds(fitted(FEATURES[1], nonzeros)) for nonzeros in DENSER]
    yield row(
        "sparse live path, m = 1e5, 50 to 400 nonzeros a row",
        "cost grows with the nonzeros: log-log slope <= 1.1",
        [("slope", "<=", 1.1)],
        {f"{nonzeros} nonzeros": seconds for nonzeros, seconds in zip(DENSER, live, strict=True)},
        unit="",
        slope=slope(DENSER, live),
        curve=curve("nonzeros a row", DENSER, live, "m = 1e5"),
    )


def curve(x_label: str, x: Any, y: Any, name: str) -> dict[str, Any]:
    """For the plot."""
    return {"x": list(x), "y": list(y), "x_label": x_label, "y_label": "seconds a step", "name": name}


def texts(rng: np.random.Generator, N: int, m: int, nonzeros: int, shift: int) -> tuple[Any, Any]:
    """Rows of word counts: common words are common, and a third of a text's words belong to its class."""
    codes = rng.permutation(np.arange(N) % CLASSES)
    words = (m * rng.random((N, nonzeros)) ** 3).astype(np.int64)
    topical = rng.random(words.shape) < 1 / 3
    words[topical] = (words[topical] // CLASSES * CLASSES + codes[:, None].repeat(nonzeros, 1)[topical] + shift) % m
    X = sp.csr_array((rng.random(words.size) + 0.5, (np.arange(N).repeat(nonzeros), words.ravel())), shape=(N, m))
    X.sum_duplicates()
    return X, codes


def fitted(m: int, nonzeros: int) -> Model:
    """ODDM with its spaces in place and its stream under way."""
    rng = np.random.default_rng(0)
    sources = [Domain(f"source {i}", *texts(rng, ROWS, m, nonzeros, i)) for i in range(SOURCES)]
    warmup = Domain("warm-up", texts(rng, WARMUP, m, nonzeros, SOURCES)[0], None)
    X, y = texts(rng, STREAM, m, nonzeros, SOURCES)
    clf = classifier("oddm", "general", preprocess="unit", dim=DIM, refresh_every=EVERY, classes=np.arange(CLASSES))
    began = time.perf_counter()
    clf.fit_domains(sources, warmup)
    seconds = time.perf_counter() - began
    return Model(clf, [X[[i]] for i in range(STREAM)], y.tolist(), seconds)


def step_seconds(model: Model) -> float:
    """Median time of predict_one and learn_one; the few steps with a refresh do not move a median."""
    times = []
    for x, y in zip(model.rows, model.labels, strict=True):
        began = time.perf_counter()
        model.clf.predict_one(x)
        model.clf.learn_one(x, y)
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def refresh_memory(model: Model, m: int) -> Row:
    """Memory that a window with its refresh needs beyond what the model holds, over n m (K + 1 + d) doubles."""
    tracemalloc.start()
    peaks = []
    for x, y in zip(model.rows[: 2 * EVERY], model.labels, strict=False):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        model.clf.learn_one(x, y)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    unit = 8 * SOURCES * m * (CLASSES + 1 + DIM)
    return row(
        f"memory of a refresh on sparse rows, m = {m}",
        "O(m (K + d)): <= 3 times n m (K + 1 + d) doubles",
        [("share", "<=", 3.0)],
        unit="of n m (K + 1 + d) doubles",
        share=max(peaks) / unit,
    )
