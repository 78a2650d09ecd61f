"""Learners of other packages that people would use instead: scikit-learn's and river's, with settings as they come.

Each sees the rows scaled by mean and deviation of the sources, learns the sources, and then every label of the stream
one by one; it is told the list of all classes. The unlabelled rows are of no use to them.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense, stack_rows
from hedgerow.core.domains import Domain
from hedgerow.core.labels import Codes
from hedgerow.inputs import as_table, need_encoder
from hedgerow.lab.tasks import SEED, Task, fit
from hedgerow.tables.encoder import TableEncoder

REFIT = 50  # labels after which a learner that cannot go on is fitted anew, on all it has seen


class PartialFit:
    """A classifier of scikit-learn that goes on from label to label; classes are the numbers 0..K-1."""

    def __init__(self, model: Any, K: int) -> None:
        self.model, self.K = model, K

    def form(self, x: Array) -> Any:
        """A row as the package wants it."""
        return x

    def fit(self, X: Array, codes: Array) -> None:
        """Learn the sources."""
        self.model.partial_fit(X, codes, classes=np.arange(self.K))

    def scores(self, row: Any) -> tuple[Any, Any]:
        """Classes and a score for each, not below zero."""
        return self.model.classes_, self.model.predict_proba(row[None])[0]

    def predict(self, row: Any) -> Array | None:
        """Its probabilities; a class it has not met has none. None where it says nothing yet."""
        classes, scores = self.scores(row)
        p = np.zeros(self.K)
        p[list(classes)] = list(scores)
        return p if p.sum() > 0 else None

    def learn(self, row: Any, code: int) -> None:
        """One more row."""
        self.model.partial_fit(row[None], [code])


class Refitted(PartialFit):
    """One that cannot go on: fitted anew on sources and stream after every 50 labels."""

    def fit(self, X: Array, codes: Array) -> None:
        """Learn the sources."""
        self.rows, self.codes = [X], codes.tolist()
        self.model.fit(X, codes)

    def learn(self, row: Any, code: int) -> None:
        """Keep the row; now and then fit anew."""
        self.rows.append(row[None])
        self.codes.append(code)
        if (len(self.rows) - 1) % REFIT == 0:
            self.model.fit(np.vstack(self.rows), self.codes)


class River(PartialFit):
    """A classifier of river: the sources, then the stream, row by row."""

    def form(self, x: Array) -> Any:
        """Numbers of the features and their values."""
        return dict(enumerate(x.tolist()))

    def fit(self, X: Array, codes: Array) -> None:
        """Learn the sources row by row."""
        for x, code in zip(X, codes.tolist(), strict=True):
            self.learn(self.form(x), code)

    def scores(self, row: Any) -> tuple[Any, Any]:
        """Classes met so far, and their shares."""
        shares = self.model.predict_proba_one(row)
        return shares.keys(), shares.values()

    def learn(self, row: Any, code: int) -> None:
        """One more row."""
        self.model.learn_one(row, code)


class Peer(NamedTuple):
    """A learner of another package: its title, how it is run, and where its class is; made where it is installed."""

    title: str
    kind: type[PartialFit]
    module: str
    name: str
    options: dict[str, Any]

    @property
    def package(self) -> str:
        """What has to be installed."""
        return self.module.split(".")[0]

    @property
    def installed(self) -> bool:
        """Whether its package is there."""
        return importlib.util.find_spec(self.package) is not None

    def make(self, K: int) -> PartialFit:
        """A new one for K classes."""
        return self.kind(getattr(importlib.import_module(self.module), self.name)(**self.options), K)


SKLEARN = "sklearn.linear_model"
PEERS = {
    "sklearn-sgd": Peer(
        "scikit-learn SGD", PartialFit, SKLEARN, "SGDClassifier", {"loss": "log_loss", "random_state": SEED}
    ),
    "sklearn-logistic": Peer(
        "scikit-learn logistic, refitted", Refitted, SKLEARN, "LogisticRegression", {"max_iter": 300}
    ),
    "river-softmax": Peer("river softmax", River, "river.linear_model", "SoftmaxRegression", {}),
    "river-hat": Peer("river adaptive tree", River, "river.tree", "HoeffdingAdaptiveTreeClassifier", {"seed": SEED}),
    "river-arf": Peer("river forest (ARF)", River, "river.forest", "ARFClassifier", {"seed": SEED}),
}


def missing_peers() -> str:
    """Which peers cannot be run, and how to get them; empty if all can.

    >>> missing_peers() == "" or "pip install" in missing_peers()
    True
    """
    missing = [peer for peer in PEERS.values() if not peer.installed]
    names, packages = ", ".join(p.title for p in missing), " ".join(dict.fromkeys(p.package for p in missing))
    return f"not installed, so not compared: {names}; pip install {packages}" if missing else ""


class FittedPeer:
    """A peer that has learned the sources, with the encoder and the scale of its rows."""

    def __init__(self, name: str, task: Task) -> None:
        # the encoder that our methods get; none where they need none
        self.encoder: TableEncoder | None = fit(task, "pa").table_ if need_encoder(task.all_domains) else None
        self.table = Codes(task.all_classes)
        self.model = PEERS[name].make(len(self.table.classes))
        X = dense(stack_rows([self._numbers(source) for source in task.sources]))
        known = ~np.isnan(X)
        self.mean = np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        deviation = np.where(known, X - self.mean, 0.0).std(axis=0)
        self.scale = np.where(deviation > 0, deviation, 1.0)
        codes = np.concatenate([self.table.of(np.asarray(source.y)) for source in task.sources])
        self.model.fit(self._scaled(X), codes)

    def _numbers(self, domain: Domain) -> Matrix:
        return domain.X if self.encoder is None else self.encoder.encode(as_table(domain), where=domain.name)

    def _scaled(self, X: Matrix) -> Array:
        """By mean and deviation of the sources; a gap is their mean."""
        scaled: Array = np.nan_to_num((dense(X) - self.mean) / self.scale)
        return scaled

    def run(self, stream: Domain) -> tuple[Array, Array, float]:
        """Predict each row, then learn its label, if it has one: the codes, the probabilities, and the seconds.

        A code is -1 where a model has no prediction yet, which is a mistake. Scaling and forming rows are not timed.
        """
        codes, K = self.table.of(np.asarray(stream.y)), len(self.table.classes)
        rows: list[Any] = [self.model.form(x) for x in self._scaled(self._numbers(stream))]
        predicted, p, seconds = np.full(len(codes), -1), np.full((len(codes), K), 1 / K), 0.0
        for i, (row, code) in enumerate(zip(rows, codes.tolist(), strict=True)):
            began = time.perf_counter()
            scores = self.model.predict(row)
            if code >= 0:
                self.model.learn(row, code)
            seconds += time.perf_counter() - began
            if scores is not None:
                predicted[i], p[i] = int(scores.argmax()), scores / scores.sum()
        return predicted, p, seconds
