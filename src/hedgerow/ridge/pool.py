"""The pool of a space: rows of the target without a label, each with a label that every head gives it.

The regression learns them as observations of a small weight w. What a head says of one of them without it, the
leave-one-out fit (f - h y)/(1 - h) with h = w u' P u, is its next label: no second regression is needed. P does not
depend on the labels, so a new label is M += w P u (C[new] - C[old]). h falls as labels come; it is computed anew when
the row's label moves, which needs P u anyway. A row that keeps its label has some more of it taken out than it should,
and may move once too often.

The work is spread: every TURN rows of the stream some rows of the pool are labelled again, one after the other in a
circle. Rows that come without a label wait for the next turn, then join; when the pool is full the oldest leave, and
what they taught is taken out again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import TURN as TURN
from hedgerow.ridge.regression import Regression, Targets

CIRCLE = 3  # turns in which a pool is labelled once,
WORK = 2**25  # unless a turn would take more multiplications
ALONE = 1e-3  # 1 - h is not taken to be less: of a row that nothing else is known about


class Pool:
    """The rows U (u x d), their labels (u x heads), h of each; whose turn it is, and who came first."""

    def __init__(
        self,
        targets: Targets,
        weight: float,
        sources: Array,
        room: int,
        state: Mapping[str, Array],
        U: Array,
    ) -> None:
        """`sources`: the class counts of the sources; labels should be as frequent.

        U is the state's, or the one that many models start with.
        """
        self.targets = targets
        self.weight = weight
        self.sources = sources
        self.room = room
        self.shared = "U" not in state  # U belongs to others too, and is only read
        self.U = U if self.shared else state["U"]
        self.labels = state["labels"]
        self.h = state["leverage"]
        self.at = state["at"]
        self.waiting = state["waiting"]
        self.bias = state["bias"]
        self.pi = expected(sources, np.zeros(targets.classes))

    def arrays(self) -> dict[str, Array]:
        """The state by short names."""
        arrays = {"labels": self.labels, "leverage": self.h, "at": self.at, "waiting": self.waiting}
        arrays |= {"bias": self.bias}
        return arrays if self.shared else arrays | {"U": self.U}

    @staticmethod
    def empty(U: Array, heads: int, K: int) -> dict[str, Array]:
        """The state before any label."""
        state: dict[str, Array] = {"labels": np.zeros((len(U), heads), np.int64)}
        state |= {
            "leverage": np.zeros(len(U), np.float32),
            "bias": np.zeros((heads, K)),
        }
        return state | {"at": np.zeros(2, np.int64), "waiting": np.zeros((0, U.shape[1]), U.dtype)}

    # -- a stream -----------------------------------------------------------------------------------------------

    def wait(self, Z: Array) -> None:
        """Rows of the stream without a label wait for the next turn."""
        self.waiting = np.concatenate([self.waiting, Z.astype(self.U.dtype)])

    def turn(self, regression: Regression, counts: Array) -> None:
        """Label the next rows of the circle, and let those in that wait; no row of the regression is pending.

        counts: labels of each class so far.
        """
        self.pi = expected(self.sources, counts)
        n = len(self.labels)
        if n:
            size = min(
                -(-n // CIRCLE), max(1, WORK // max(regression.M.size, 1))
            )  # with one class M is empty
            self._label(regression, (int(self.at[0]) + np.arange(size)) % n)
            self.at[0] = (self.at[0] + size) % n
        if len(self.waiting):
            self._join(regression)

    def _label(self, regression: Regression, rows: Array) -> None:
        U = self.U[rows]
        old = self.labels[rows]
        targets = self.targets.of_labels(old)
        h = self.h[rows, None]
        fits = (U @ regression.M.astype(U.dtype, copy=False) - h * targets) / np.maximum(
            1.0 - h, ALONE
        )
        new = self._labels(self.targets.scores(fits), AGAIN)
        moved = (new != old).any(axis=1)
        if moved.any():
            change = self.targets.of_labels(new[moved]) - targets[moved]
            Um = U[moved].astype(np.float64)
            PU = regression.move(Um, self.weight * change)
            self.labels[rows] = new
            self.h[rows[moved]] = self.weight * np.einsum("ij,ij->i", PU, Um)

    def label_first(self, fits: Array) -> Array:
        """Labels by what the regression says without the pool."""
        return self._labels(self.targets.scores(fits), FIRST)

    def _labels(self, F: Array, steps: int) -> Array:
        """The class that each head gives each row (rows x heads), of scores F."""
        self.bias = biases(F, self.bias, self.pi, steps)
        return np.asarray((F - self.bias).argmax(axis=2))

    def _join(self, regression: Regression) -> None:
        """The rows that wait are labelled and learned; where there is no room the oldest leave."""
        noise = 1.0 / self.weight
        Z = self.waiting.astype(np.float64)
        self.waiting = self.waiting[:0]
        Z = Z[~regression.doubtful(Z, noise)]
        leave = max(0, len(self.labels) + len(Z) - self.room)
        oldest = (int(self.at[1]) + np.arange(leave)) % max(len(self.labels), 1)
        if not len(Z) or (leave and not self._leave(regression, oldest)):
            return
        labels = self._labels(self.targets.scores(Z @ regression.M), 0)
        regression.update(Z, self.targets.of_labels(labels), noise)
        h = np.asarray(self.weight * regression.leverage(Z), np.float32)
        self._take(oldest, Z.astype(self.U.dtype), labels, h)

    def _take(self, oldest: Array, U: Array, labels: Array, h: Array) -> None:
        """New rows in the places of the oldest, and behind all others."""
        n = len(oldest)
        if self.shared:
            self.U = self.U.copy()
            self.shared = False
        self.U[oldest], self.labels[oldest], self.h[oldest] = U[:n], labels[:n], h[:n]
        self.at[1] = (self.at[1] + n) % max(len(self.labels), 1)
        if n < len(U):
            self.U = np.concatenate([self.U, U[n:]])
            self.labels = np.concatenate([self.labels, labels[n:]])
            self.h = np.concatenate([self.h, h[n:]])

    def _leave(self, regression: Regression, rows: Array) -> bool:
        targets = self.targets.of_labels(self.labels[rows])
        return regression.update(self.U[rows].astype(np.float64), targets, 1.0 / self.weight, -1.0)

    def grow(self, extra: int) -> dict[str, Array]:
        """The state with room for new classes."""
        return self.arrays() | {"bias": np.pad(self.bias, ((0, 0), (0, extra)))}


# Labels for the pool that use each class about as often as it is expected to occur.
#
# Under a change of domain a few classes attract the rows of many others, and a pool labelled by the plain argmax
# teaches that error. Each head has a bias b_k a class, such that softmax(c (F - b)), averaged over the pool, has the
# expected frequencies pi: Sinkhorn's scaling of the columns, in a few careful steps at a time, because a pool is a
# sample. pi are the sources' class frequencies, which the target's labels correct.
SHARPNESS = 16.0  # c
ROWS = 10.0  # imagined rows a class, of exactly the expected frequencies, added to the pool to make steps smaller
BELIEF = 30.0  # labels of the target a class that weigh as much as the sources' frequencies
STEP = 0.7  # share of a full step in log b
FIRST = 20  # steps at the start, and at each later labelling from where the last one ended
AGAIN = 1


def expected(sources: Array, target: Array) -> Array:
    """Class frequencies from the class counts of both sides: the sources' count as BELIEF rows a class.

    >>> expected(np.array([9.0, 1.0]), np.array([0.0, 0.0])).round(2).tolist()
    [0.83, 0.17]
    >>> expected(np.array([9.0, 1.0]), np.array([0.0, 60.0])).round(2).tolist()
    [0.42, 0.58]
    """
    same = sources + 1.0
    counts = same * (BELIEF * len(same) / same.sum()) + target
    return np.asarray(counts / counts.sum())


def biases(F: Array, start: Array, pi: Array, steps: int) -> Array:
    """b (heads x K) for scores F (rows x heads x K), from a start, and the expected frequencies.

    >>> F = np.array([[[0.5, 0.4]], [[0.6, 0.1]]])
    >>> (F - biases(F, np.zeros((1, 2)), np.full(2, 0.5), 20)).argmax(axis=2).ravel().tolist()
    [1, 0]
    """
    rows, _, K = F.shape
    E = np.exp(SHARPNESS * (F - F.max(axis=2, keepdims=True)))
    scale = np.exp(-SHARPNESS * start)
    for _ in range(steps):
        shares = E * scale
        shares /= shares.sum(axis=2, keepdims=True)
        frequencies = (shares.sum(axis=0) + ROWS * K * pi) / (rows + ROWS * K)
        scale *= (pi / frequencies) ** STEP
    b = -np.log(scale) / SHARPNESS
    return np.asarray(b - b.mean(axis=1, keepdims=True))
