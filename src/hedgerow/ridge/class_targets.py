"""Which sources a head trusts, and its class targets: what its regression should say for a row of each class.

One number a class (one-hot), or the class means of the sources in a basis of their span. A table is kept for the means
only, in at most DIRECTIONS of them, and one-hot targets need none: what is kept grows with K, not with K^2.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.preprocess import unit

EPSILON = 0.03  # how much a source's own head trusts the other sources
DIRECTIONS = 128  # of the class means; of more classes than that the leading ones are kept


def weightings(n: int) -> list[Array]:
    """How much each head trusts each source: all alike; then each source alone, the others at EPSILON.

    >>> [w.tolist() for w in weightings(2)]
    [[1.0, 1.0], [1.0, 0.03], [0.03, 1.0]]
    """
    if not n:
        return []
    return [np.ones(n)] + ([np.where(np.arange(n) == i, 1.0, EPSILON) for i in range(n)] if n > 1 else [])


def class_targets(weights: Array, sums: list[Array], counts: list[Array]) -> Array:
    """Unit centred source class means, written in a basis of their span: one regression serves all classes."""
    count = sum(w * c for w, c in zip(weights, counts, strict=True))
    means = sum(w * s for w, s in zip(weights, sums, strict=True)) / np.maximum(count, 1e-9)[:, None]
    u, s, _ = np.linalg.svd(unit(means - means.mean(axis=0)), full_matrices=False)
    kept = s > 1e-9 * max(s[0], 1e-300)
    return np.asarray((u * s)[:, kept][:, :DIRECTIONS])


def grown(targets: Array, widths: list[int], classes: int) -> tuple[Array, list[int]]:
    """Targets (K x sum of widths) and widths with room for so many classes: each new one a column, orthogonal to all.

    >>> grown(np.eye(1), [1], 2)
    (array([[1., 0.],
           [0., 1.]]), [2])
    """
    extra = classes - len(targets)
    if not extra:
        return targets, widths
    parts, begin = [], 0
    for width in widths:
        part = np.zeros((classes, width + extra))
        part[: len(targets), :width] = targets[:, begin : begin + width]
        part[len(targets) :, width:] = np.eye(extra)
        parts.append(part)
        begin += width
    return np.hstack(parts), [width + extra for width in widths]


def grown_columns(M: Array, widths: list[int], extra: int) -> Array:
    """Weights of heads side by side (.. x sum of widths), each with zeros for the new classes.

    >>> grown_columns(np.ones((1, 2)), [1, 1], 1)
    array([[1., 0., 1., 0.]])
    """
    if not extra:
        return M
    ends = np.cumsum(widths)
    return np.hstack([np.pad(M[:, e - w : e], ((0, 0), (0, extra))) for w, e in zip(widths, ends, strict=True)])


class Targets:
    """The class targets of all heads of a space side by side; without a table each head has one number a class.

    >>> targets = Targets(None, [2, 2], 2)
    >>> targets.rows(np.array([1])).tolist(), targets.of_labels(np.array([[0, 1]])).tolist()
    ([[0.0, 1.0, 0.0, 1.0]], [[1.0, 0.0, 0.0, 1.0]])
    >>> targets.scores(np.array([[0.1, 0.9, 0.3, 0.7]])).tolist()
    [[[0.1, 0.9], [0.3, 0.7]]]
    """

    def __init__(self, table: Array | None, widths: list[int], classes: int) -> None:
        self.classes, self.heads, self.table = classes, len(widths), None
        self.widths, self.width = [classes] * self.heads, classes * self.heads  # columns of each head, and of all
        if table is None:
            return
        self.table, self.widths = grown(table, widths, classes)
        self.width = self.table.shape[1]
        ends = np.cumsum(self.widths).tolist()
        parts = [self.table[:, e - w : e] for w, e in zip(self.widths, ends, strict=True)]
        self._parts = [np.ascontiguousarray(C.T) for C in parts]
        self._half_squares = np.array([0.5 * (C * C).sum(axis=1) for C in parts])

    def rows(self, y: Array) -> Array:
        """The targets of rows by their labels (B x q); that of a row without one is any."""
        if self.table is not None:
            return np.asarray(self.table[y])
        if len(y) == 1:  # the usual step of a stream
            out = np.zeros((1, self.width))
            out[0, y[0] % self.classes :: self.classes] = 1.0
            return out
        return self.of_labels(np.broadcast_to(y[:, None], (len(y), self.heads)))

    def of_labels(self, labels: Array) -> Array:
        """The targets where every head has a label of its own for a row (rows x heads)."""
        n = len(labels)
        if self.table is None:
            out = np.zeros((n, self.heads, self.classes))
            out[np.arange(n)[:, None], np.arange(self.heads), labels] = 1.0
            return out.reshape(n, -1)
        return np.hstack([C.T[labels[:, h]] for h, C in enumerate(self._parts)])

    def scores(self, fits: Array) -> Array:
        """score_k = C_k . f - |C_k|^2/2 (B x heads x K)."""
        if self.table is None:
            return fits.reshape(len(fits), self.heads, self.classes)
        out, begin = np.empty((len(fits), self.heads, self.classes)), 0
        for h, C in enumerate(self._parts):
            out[:, h] = fits[:, begin : begin + len(C)] @ C
            begin += len(C)
        out -= self._half_squares
        return out
