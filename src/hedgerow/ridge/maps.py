"""Feature maps of the spaces: learned offline, applied to rows never seen before.

| link        | formula                                                | learned from                           |
|-------------|--------------------------------------------------------|----------------------------------------|
| `white`     | unit(z H), H = (C_w + mean eig(C_w) I)^{-1/2}          | within-class covariance of the sources |
| `landmarks` | k(z L') K_LL^{-1/2}                                    | rows of the sources and of the warm-up |
| `pca`       | unit(z V), V = leading eigenvectors / sqrt(eigenvalue) | scatter of one source and the warm-up  |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import Array
from hedgerow.moments import Moments
from hedgerow.preprocess import unit

LANDMARKS = 1000  # at most; 600 left small sources uncovered, 2000 gained nothing
POOL_SHARE = 3  # one landmark in three may come from the warm-up
PCA_DIM = 100
KERNEL_TOLERANCE = 1e-6


def quadratic(c: Array) -> Array:
    """(c + c^2)/2 of a cosine c: linear and second-degree features in equal parts."""
    return np.asarray((c + c * c) / 2)


@dataclass(frozen=True)
class Map:
    """z -> z, or unit(z A), or k(z L') A where there are landmarks L.

    >>> Map()(np.ones((1, 2)))
    array([[1., 1.]])
    """

    A: Array | None = None
    landmarks: Array | None = None

    def __call__(self, Z: Array) -> Array:
        """Rows in the space."""
        if self.A is None:
            return Z
        if self.landmarks is None:
            return np.asarray(unit(Z @ self.A))
        return np.asarray(quadratic(Z @ self.landmarks.T) @ self.A)

    def arrays(self) -> dict[str, Array]:
        """What is learned, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


def whitening(sources: Sequence[Array], codes: Sequence[Array], K: int) -> Map:
    """H from the pooled within-class covariance; the shrinkage is its mean eigenvalue."""
    rows = np.vstack(sources)
    moments = Moments.of(rows, np.concatenate(codes), K)
    means, counts = moments.class_means, moments.class_counts
    within = (rows.T @ rows - (means.T * counts) @ means) / len(rows)
    values, Q = np.linalg.eigh(within)
    values = np.maximum(values, 0)
    shrink = values.mean()
    return Map((Q * (values + (shrink if shrink > 0 else 1.0)) ** -0.5) @ Q.T)


def landmarks(sources: Sequence[Array], pool: Array, rng: np.random.Generator) -> Map:
    """Landmarks drawn from the pool (at most a third) and from every source alike; features with K_LL^{-1/2}."""
    taken = min(len(pool), LANDMARKS // POOL_SHARE)
    each = (LANDMARKS - taken) // max(len(sources), 1)
    parts = [pool[rng.choice(len(pool), taken, replace=False)]] if taken else []
    parts += [X[rng.choice(len(X), min(each, len(X)), replace=False)] for X in sources]
    L = np.vstack(parts)
    values, Q = np.linalg.eigh(quadratic(L @ L.T))
    kept = values > KERNEL_TOLERANCE * values.max()
    return Map(Q[:, kept] * values[kept] ** -0.5, L)


def whitened_pca(source: Array, pool: Array) -> Map:
    """Leading directions of source and warm-up together, each scaled to the same variance."""
    values, Q = np.linalg.eigh(source.T @ source + pool.T @ pool)
    values, Q = values[::-1][:PCA_DIM], Q[:, ::-1][:, :PCA_DIM]
    return Map(Q / np.sqrt(np.maximum(values, 0) + 1e-9))
