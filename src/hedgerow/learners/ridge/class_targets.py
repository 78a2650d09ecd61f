"""Which sources a head trusts, and its class targets: what its regression should say for a row of each class."""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.preprocess import unit

EPSILON = 0.03  # how much a source's own head trusts the other sources


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
    return np.asarray((u * s)[:, kept])


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
