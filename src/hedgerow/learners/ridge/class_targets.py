"""Whom a head of a space trusts, and the codes by which it tells the classes apart."""

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


def class_codes(weights: Array, sums: list[Array], counts: list[Array]) -> Array:
    """Unit centred source class means, written in a basis of their span: one regression serves all classes."""
    count = sum(w * c for w, c in zip(weights, counts, strict=True))
    means = sum(w * s for w, s in zip(weights, sums, strict=True)) / np.maximum(count, 1e-9)[:, None]
    u, s, _ = np.linalg.svd(unit(means - means.mean(axis=0)), full_matrices=False)
    kept = s > 1e-9 * max(s[0], 1e-300)
    return np.asarray((u * s)[:, kept])
