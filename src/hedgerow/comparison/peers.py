"""Learners of other packages that people would use instead: scikit-learn's and river's, with settings as they come.

Each sees the rows scaled by mean and deviation of the sources, learns the sources, and then every label of the stream;
classifiers are told the list of all classes. The unlabelled rows are of no use to them.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from hedgerow.comparison.tasks import Task
from hedgerow.core.arrays import Array, Matrix, dense, stack_rows
from hedgerow.core.domains import Domain
from hedgerow.core.values import Codes
from hedgerow.inputs import as_table
from hedgerow.regressor import numbers
from hedgerow.tables import Named, TableEncoder, TableOptions, learn

SEED = 0
REFIT = 50  # labels after which a learner that cannot go on is fitted anew, on all it has seen


class Refitted:
    """One of scikit-learn that cannot go on: fitted anew on sources and stream after every 50 labels.

    Targets are numbers, or codes of K classes; what is predicted is a number, or a score for each class.
    """

    def __init__(self, model: Any, K: int) -> None:
        self.model = model
        self.K = K

    def fit(self, X: Array, t: Array) -> None:
        """Learn the sources."""
        self.X = X
        self.t = t
        self.model.fit(X, t)

    def told(self, X: Array) -> Array:
        """Its predictions; a class that it has not met has the score 0."""
        if not self.K:
            return np.asarray(self.model.predict(X))
        p = np.zeros((len(X), self.K))
        p[:, self.model.classes_] = self.model.predict_proba(X)
        return p

    def run(self, X: Array, t: Array, known: Array) -> Iterator[Any]:
        """The prediction of each row, before its target is learned, where it is known."""
        labels = np.flatnonzero(known)
        for start, end in pairwise(np.unique([0, *(labels[REFIT - 1 :: REFIT] + 1), len(X)])):
            if start:
                seen = labels[labels < start]
                self.model.fit(np.vstack([self.X, X[seen]]), np.concatenate([self.t, t[seen]]))
            yield from self.told(X[start:end])


class River(Refitted):
    """A classifier of river: the sources, then the stream, row by row."""

    def fit(self, X: Array, t: Array) -> None:
        """Learn the sources row by row."""
        for _ in self.run(X, t, np.ones(len(X), dtype=bool)):
            pass

    def run(self, X: Array, t: Array, known: Array) -> Iterator[Any]:
        """Row by row; before the first class there is no score."""
        for x, code, is_known in zip(X.tolist(), t.tolist(), known.tolist(), strict=True):
            row = dict(enumerate(x))
            p = np.zeros(self.K)
            shares = self.model.predict_proba_one(row)
            p[list(shares)] = list(shares.values())
            yield p
            if is_known:
                self.model.learn_one(row, code)


class RunningMean(Refitted):
    """The mean of the target's numbers so far; of the sources' before the first."""

    def fit(self, X: Array, t: Array) -> None:
        """Learn the sources."""
        self.mean = float(t.mean())

    def run(self, X: Array, t: Array, known: Array) -> Iterator[Any]:
        """The mean before each row."""
        sums = np.cumsum(np.where(known, t, 0.0))
        counts = np.cumsum(known)
        yield self.mean
        yield from np.where(counts > 0, sums / np.maximum(counts, 1), self.mean)[:-1]


class LastValue(Refitted):
    """The last number of the target; the last of the sources before the first."""

    def fit(self, X: Array, t: Array) -> None:
        """Learn the sources."""
        self.value = float(t[~np.isnan(t)][-1])

    def run(self, X: Array, t: Array, known: Array) -> Iterator[Any]:
        """The number before each row."""
        for value, is_known in zip(t.tolist(), known.tolist(), strict=True):
            yield self.value
            self.value = value if is_known else self.value


class Peer(NamedTuple):
    """A learner of another package: its title, how it is run, and where its class is; made where it is installed."""

    title: str
    kind: type[Refitted]
    module: str
    name: str
    options: Mapping[str, Any] | None = None
    gaps: bool = False  # it knows what to do with a gap; others see the mean of the sources there

    @property
    def package(self) -> str:
        """What has to be installed."""
        return self.module.split(".")[0]

    @property
    def installed(self) -> bool:
        """Whether its package is there."""
        return importlib.util.find_spec(self.package) is not None

    def make(self, K: int) -> Refitted:
        """A new one, for K classes, or for numbers if there are none."""
        return self.kind(
            getattr(importlib.import_module(self.module), self.name)(**(self.options or {})), K
        )


LINEAR = "sklearn.linear_model"
TREES = "sklearn.ensemble"
SEEDED = {"random_state": SEED}
PEERS = {
    "sklearn-boosting": Peer(
        "scikit-learn boosting, refitted",
        Refitted,
        TREES,
        "HistGradientBoostingClassifier",
        SEEDED,
        gaps=True,
    ),
    "sklearn-logistic": Peer(
        "scikit-learn logistic, refitted", Refitted, LINEAR, "LogisticRegression", {"max_iter": 300}
    ),
    "river-arf": Peer("river forest (ARF)", River, "river.forest", "ARFClassifier", {"seed": SEED}),
}
NUMBER_PEERS = {
    "mean": Peer("running mean", RunningMean, "builtins", "object"),
    "last": Peer("last value", LastValue, "builtins", "object"),
    "ridge": Peer(
        "ridge, refitted", Refitted, LINEAR, "RidgeCV", {"alphas": 10.0 ** np.arange(-3, 4)}
    ),
    "boosting": Peer(
        "boosting, refitted", Refitted, TREES, "HistGradientBoostingRegressor", SEEDED, gaps=True
    ),
}


def missing_peers(names: list[str]) -> str:
    """Which of these peers cannot be run, and how to get them; empty if all can.

    >>> missing_peers(["river-arf"]) in ("", "not installed, so not compared: river forest (ARF); pip install river")
    True
    """
    missing = [PEERS[name] for name in names if not PEERS[name].installed]
    titles = ", ".join(p.title for p in missing)
    packages = " ".join(dict.fromkeys(p.package for p in missing))
    return f"not installed, so not compared: {titles}; pip install {packages}" if missing else ""


class FittedPeer:
    """A peer that has learned the sources, with the encoder and the scale of its rows."""

    def __init__(self, name: str, task: Task, table: dict[str, Any] | None = None) -> None:
        self.peer = (PEERS | NUMBER_PEERS)[name]
        self.codes = None if name in NUMBER_PEERS else Codes(task.all_classes)
        self.encoder: TableEncoder | None = None  # what our methods get: none where they need none
        if table is not None or task.has_columns_to_encode:
            *sources, target = (
                Named(d.name, as_table(d)) for d in (*task.sources, task.warmup or task.stream)
            )
            known = None if task.warmup is None else target
            self.encoder = learn(sources, known, TableOptions.of(table or {}), own_columns=False)[0]
        self.model = self.peer.make(len(self.codes.classes) if self.codes else 0)
        X = dense(stack_rows([self._numbers(source) for source in task.sources]))
        self.scaler = StandardScaler().fit(X)  # of the numbers that are there
        self.model.fit(
            self._scaled(X), np.concatenate([self.targets(source) for source in task.sources])
        )

    def targets(self, domain: Domain) -> Array:
        """Codes of classes, -1 for none, or numbers, NaN for none."""
        y = np.asarray(domain.y)
        return numbers(y, domain.name) if self.codes is None else self.codes.of(y)

    def _numbers(self, domain: Domain) -> Matrix:
        return (
            domain.X
            if self.encoder is None
            else self.encoder.encode(as_table(domain), where=domain.name)
        )

    def _scaled(self, X: Matrix) -> Array:
        """By mean and deviation of the sources."""
        scaled = np.asarray(self.scaler.transform(dense(X)))
        return scaled if self.peer.gaps else np.nan_to_num(scaled)

    def run(self, stream: Domain) -> tuple[Array, float]:
        """The prediction of each row before its label is learned, and the seconds; scaling is not timed."""
        X = self._scaled(self._numbers(stream))
        t = self.targets(stream)
        known = ~np.isnan(t) if self.codes is None else t >= 0
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # as it comes: so many iterations and no more
            told = np.array(list(self.model.run(X, t, known)))
        return told, time.perf_counter() - began
