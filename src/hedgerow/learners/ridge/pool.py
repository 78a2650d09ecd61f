"""The pool of a space: rows of the target without a label, each with a label that every head gives it.

The regression learns them as observations of a small weight w. What a head says of one of them without it, the
leave-one-out fit (f - h y)/(1 - h) with h = w u' P u, is its next label: no second regression is needed. P does not
depend on the labels, so a new label is M += w P u (C[new] - C[old]), and h falls by w (u . g)^2 with every row g that is
learned.

The work is spread: every TURN rows of the stream some rows of the pool are labelled again, one after the other in a
circle. Rows that come without a label wait for the next turn, then join; when the pool is full the oldest leave, and
what they taught is taken out again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.learners.ridge.class_targets import Targets
from hedgerow.learners.ridge.pool_labels import AGAIN, biases, expected
from hedgerow.learners.ridge.regression import Regression

TURN = 10  # rows of the stream between two turns
CIRCLE = 5  # turns in which a pool is labelled once,
PART = 128  # unless it takes more than so many rows a turn
ROOM = 1000  # rows; a larger warm-up is thinned
ALONE = 1e-3  # 1 - h is not taken to be less: of a row that nothing else is known about


class Pool:
    """The rows U (u x d), their labels (u x heads), h of each; whose turn it is, and who came first."""

    def __init__(self, targets: Targets, weight: float, sources: Array | None, room: int) -> None:
        """`sources`: the class counts of the sources, where labels should be as frequent; None: as they come."""
        self.targets, self.weight, self.sources, self.room = targets, weight, sources, room
        self.shared = False  # whether U belongs to others too, and is only read

    def read(self, state: Mapping[str, Array], U: Array) -> None:
        """What was learned so far; U is the state's, or the one that many models start with."""
        self.shared = "U" not in state
        self.U = U if self.shared else state["U"]
        self.labels, self.h, self.at = state["labels"], state["leverage"], state["at"]
        self.waiting = state["waiting"]
        if self.sources is not None:
            self.counts, self.bias = state["counts"], state["bias"]

    def arrays(self) -> dict[str, Array]:
        """The state by short names."""
        found = {"labels": self.labels, "leverage": self.h, "at": self.at, "waiting": self.waiting}
        if not self.shared:
            found["U"] = self.U
        if self.sources is not None:
            found |= {"counts": self.counts, "bias": self.bias}
        return found

    @staticmethod
    def empty(U: Array, heads: int, K: int | None) -> dict[str, Array]:
        """The state before any label; K where labels are balanced."""
        state = {"labels": np.zeros((len(U), heads), np.int64), "leverage": np.zeros(len(U), np.float32)}
        state |= {"at": np.zeros(2, np.int64), "waiting": np.zeros((0, U.shape[1]), U.dtype)}
        return state if K is None else state | {"counts": np.zeros(K), "bias": np.zeros((heads, K))}

    # -- a stream -----------------------------------------------------------------------------------------------

    def watch(self, Z: Array, y: Array) -> None:
        """Rows of the stream: labels are counted, and rows without one wait."""
        labelled = y >= 0
        if self.sources is not None:
            self.counts += np.bincount(y[labelled], minlength=self.targets.classes)
        if not labelled.all():
            self.waiting = np.concatenate([self.waiting, Z[~labelled].astype(self.U.dtype)])

    def turn(self, regression: Regression) -> None:
        """Bring h up to date, label the next rows of the circle, and let those in that wait."""
        self._learned(regression)
        n = len(self.labels)
        if n:
            size = min(-(-n // CIRCLE), PART)
            self._label(regression, (int(self.at[0]) + np.arange(size)) % n)
            self.at[0] = (self.at[0] + size) % n
        if len(self.waiting):
            self._join(regression)

    def _learned(self, regression: Regression) -> None:
        """h after the rows that are pending in the regression, which are folded in."""
        self._change(regression.G[: regression.pending], -1.0)
        regression.flush()

    def _change(self, G: Array, sign: float) -> None:
        """h after P has become P + sign G' G."""
        if len(self.h) and len(G):
            along = self.U @ G.astype(self.U.dtype).T
            self.h += np.asarray(sign * self.weight * np.square(along).sum(axis=1), np.float32)

    def _label(self, regression: Regression, rows: Array) -> None:
        U, old = self.U[rows].astype(np.float64), self.labels[rows]
        targets, h = self.targets.of_labels(old), self.h[rows].astype(np.float64)[:, None]
        fits = (U @ regression.M - h * targets) / np.maximum(1.0 - h, ALONE)
        new = self._labels(self.targets.scores(fits), AGAIN)
        moved = (new != old).any(axis=1)
        if moved.any():
            change = self.targets.of_labels(new[moved]) - targets[moved]
            regression.move(U[moved], self.weight * change)
            self.labels[rows] = new

    def label_first(self, fits: Array, steps: int) -> Array:
        """Labels by what the regression says without the pool."""
        return self._labels(self.targets.scores(fits), steps)

    def _labels(self, F: Array, steps: int) -> Array:
        """The class that each head gives each row (rows x heads), of scores F."""
        if self.sources is not None:
            pi = expected(self.sources, self.counts)
            self.bias = biases(F, self.bias, pi, steps)
            F = F - self.bias
        return np.asarray(F.argmax(axis=2))

    def _join(self, regression: Regression) -> None:
        """The rows that wait are labelled and learned; where there is no room the oldest leave."""
        noise = 1.0 / self.weight
        Z = self.waiting[-self.room :].astype(np.float64)
        self.waiting = self.waiting[:0]
        Z = Z[~regression.doubtful(Z, np.full(len(Z), noise))]
        leave = max(0, len(self.labels) + len(Z) - self.room)
        oldest = (int(self.at[1]) + np.arange(leave)) % max(len(self.labels), 1)
        if leave and not self._leave(regression, oldest):
            return
        labels = self._labels(self.targets.scores(Z @ regression.M), 0)
        regression.make_room(len(Z))
        regression.run(Z, self.targets.of_labels(labels), np.full(len(Z), noise))
        self._learned(regression)
        regression.give_back_room()
        h = np.asarray(self.weight * regression.leverage(Z), np.float32)
        new = Z.astype(self.U.dtype)
        if self.shared:
            self.U, self.shared = self.U.copy(), False
        self.U[oldest], self.labels[oldest], self.h[oldest] = new[:leave], labels[:leave], h[:leave]
        self.at[1] = (self.at[1] + leave) % max(len(self.labels), 1)
        if leave < len(new):
            self.U = np.concatenate([self.U, new[leave:]])
            self.labels = np.concatenate([self.labels, labels[leave:]])
            self.h = np.concatenate([self.h, h[leave:]])

    def _leave(self, regression: Regression, rows: Array) -> bool:
        targets = self.targets.of_labels(self.labels[rows])
        G = regression.unlearn(self.U[rows].astype(np.float64), targets, 1.0 / self.weight)
        if G is None:
            return False
        self._change(G, 1.0)
        return True

    def grow(self, extra: int) -> dict[str, Array]:
        """The state with room for new classes."""
        found = self.arrays()
        for name in ("counts", "bias"):
            if name in found:
                found[name] = np.pad(found[name], [(0, 0)] * (found[name].ndim - 1) + [(0, extra)])
        return found
