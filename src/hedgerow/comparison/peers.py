"""Learners of other packages that people would use instead: scikit-learn's and river's, with settings as they come.

Each sees the rows scaled by mean and deviation of the sources, learns the sources, and then every label of the stream
one by one; it is told the list of all classes. The unlabelled rows are of no use to them.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hedgerow.comparison.measures import Predicted
from hedgerow.core.arrays import Array, Matrix, dense

REFIT = 50  # labels after which a learner that cannot go on is fitted anew, on all it has seen
SEED = 0


class PeerModel(Protocol):
    """What the loop below needs of a peer. Classes are numbers; rows are brought into the package's form beforehand."""

    def fit(self, X: Array, codes: Array) -> None:
        """Learn the sources."""
        ...

    def form(self, x: Array) -> Any:
        """A row as the package wants it."""
        ...

    def predict(self, row: Any) -> Array | None:
        """A score for each class, not below zero; None where it has nothing to say yet."""
        ...

    def learn(self, row: Any, code: int) -> None:
        """The label of the row just predicted."""
        ...


class PartialFit:
    """A classifier of scikit-learn that goes on: some passes over the sources, then label by label."""

    def __init__(self, model: Any, K: int, passes: int = 1) -> None:
        self.model, self.K, self.passes = model, K, passes

    def fit(self, X: Array, codes: Array) -> None:
        """The passes."""
        for _ in range(self.passes):
            self.model.partial_fit(X, codes, classes=np.arange(self.K))

    def form(self, x: Array) -> Array:
        """As it is."""
        return x

    def predict(self, row: Array) -> Array | None:
        """Its own probabilities."""
        return np.asarray(self.model.predict_proba(row[None])[0])

    def learn(self, row: Array, code: int) -> None:
        """One more row."""
        self.model.partial_fit(row[None], [code])


class Refitted:
    """A classifier of scikit-learn that cannot go on: fitted anew on sources and stream after every 50 labels."""

    def __init__(self, model: Any, K: int) -> None:
        self.model, self.K = model, K
        self.rows: list[Array] = []
        self.codes: list[int] = []

    def fit(self, X: Array, codes: Array) -> None:
        """The sources."""
        self.rows, self.codes = [X], codes.tolist()
        self.model.fit(X, codes)

    def form(self, x: Array) -> Array:
        """As it is."""
        return x

    def predict(self, row: Array) -> Array | None:
        """Its probabilities; a class it has not met has none."""
        p = np.zeros(self.K)
        p[self.model.classes_] = self.model.predict_proba(row[None])[0]
        return p

    def learn(self, row: Array, code: int) -> None:
        """Keep the row; now and then fit anew."""
        self.rows.append(row[None])
        self.codes.append(code)
        if (len(self.rows) - 1) % REFIT == 0:
            self.model.fit(np.vstack(self.rows), self.codes)


class River:
    """A classifier of river: the sources, then the stream, row by row."""

    def __init__(self, model: Any, K: int) -> None:
        self.model, self.K = model, K

    def fit(self, X: Array, codes: Array) -> None:
        """Row by row."""
        for x, code in zip(X, codes.tolist(), strict=True):
            self.learn(self.form(x), code)

    def form(self, x: Array) -> dict[int, float]:
        """Numbers of the features and their values."""
        return dict(enumerate(x.tolist()))

    def predict(self, row: dict[int, float]) -> Array | None:
        """Its shares, if it has any yet."""
        shares = self.model.predict_proba_one(row)
        if not shares or not sum(shares.values()) > 0:
            return None
        p = np.zeros(self.K)
        p[list(shares)] = list(shares.values())
        return p

    def learn(self, row: dict[int, float], code: int) -> None:
        """One more row."""
        self.model.learn_one(row, code)


def _sgd(K: int) -> PeerModel:
    from sklearn.linear_model import SGDClassifier

    return PartialFit(SGDClassifier(loss="log_loss", random_state=SEED), K)


def _logistic(K: int) -> PeerModel:
    from sklearn.linear_model import LogisticRegression

    return Refitted(LogisticRegression(max_iter=300), K)


def _softmax(K: int) -> PeerModel:
    from river.linear_model import SoftmaxRegression

    return River(SoftmaxRegression(), K)


def _forest(K: int) -> PeerModel:
    from river.forest import ARFClassifier

    return River(ARFClassifier(seed=SEED), K)


def _tree(K: int) -> PeerModel:
    from river.tree import HoeffdingAdaptiveTreeClassifier

    return River(HoeffdingAdaptiveTreeClassifier(seed=SEED), K)


@dataclass(frozen=True)
class Peer:
    """A learner of another package: its title, the package, and how it is made for K classes."""

    title: str
    package: str  # as pip calls it
    module: str
    make: Callable[[int], PeerModel]

    @property
    def there(self) -> bool:
        """Whether its package is installed."""
        return importlib.util.find_spec(self.module) is not None


PEERS = {
    "sklearn-sgd": Peer("scikit-learn SGD", "scikit-learn", "sklearn", _sgd),
    "sklearn-logistic": Peer("scikit-learn logistic, refitted", "scikit-learn", "sklearn", _logistic),
    "river-softmax": Peer("river softmax", "river", "river", _softmax),
    "river-hat": Peer("river adaptive tree", "river", "river", _tree),
    "river-arf": Peer("river forest (ARF)", "river", "river", _forest),
}


def missing_peers() -> str:
    """Which peers cannot be run, and how to get them; empty if all can.

    >>> missing_peers() == "" or "pip install" in missing_peers()
    True
    """
    gone = [peer for peer in PEERS.values() if not peer.there]
    names, packages = ", ".join(p.title for p in gone), " ".join(dict.fromkeys(p.package for p in gone))
    return f"not installed, so not compared: {names}; pip install {packages}" if gone else ""


@dataclass(frozen=True, eq=False)
class FittedPeer:
    """A peer that has learned the sources, and the scale of its rows."""

    model: PeerModel
    mean: Array
    scale: Array

    @classmethod
    def of(cls, name: str, sources: Matrix, codes: Array, K: int) -> FittedPeer:
        """Fit it on all rows of all sources."""
        X = dense(sources)
        known = ~np.isnan(X)
        mean = np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        deviation = np.where(known, X - mean, 0.0).std(axis=0)
        fitted = cls(PEERS[name].make(K), mean, np.where(deviation > 0, deviation, 1.0))
        fitted.model.fit(fitted.scaled(X), codes)
        return fitted

    def scaled(self, X: Matrix) -> Array:
        """By mean and deviation of the sources; a gap is their mean."""
        return np.nan_to_num((dense(X) - self.mean) / self.scale)

    def run(self, X: Matrix, codes: Array, K: int) -> Predicted:
        """Predict each row, then learn its label, if it has one; scaling and forming rows are not on the clock."""
        rows = [self.model.form(x) for x in self.scaled(X)]
        said, p = np.full(len(codes), -1), np.full((len(codes), K), 1 / K)
        seconds = 0.0
        for i, (row, code) in enumerate(zip(rows, codes.tolist(), strict=True)):
            began = time.perf_counter()
            found = self.model.predict(row)
            if code >= 0:
                self.model.learn(row, code)
            seconds += time.perf_counter() - began
            if found is not None:
                said[i], p[i] = int(found.argmax()), found / found.sum()
        return Predicted(said, p, codes, seconds)
