"""Feature maps of the spaces: the projections of `hedgerow.align.spaces`, for rows that are of unit length already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.align.base import quadratic
from hedgerow.align.spaces import LANDMARKS, drawn, kernel_root, whitened_axes, within_class_root
from hedgerow.core.arrays import Array, on_large_pages
from hedgerow.core.preprocess import unit
from hedgerow.learners.ridge.regression import symmetric_product

PCA_DIM = 100
NEARLY_ALL = 0.8  # share of the landmarks: a space of fewer dimensions is cheaper than one of all landmarks


@dataclass(frozen=True)
class Map:
    """z -> z, or unit(z A), or unit(z H) with a symmetric H; with landmarks L it is k(z L'), or k(z L') A.

    >>> Map()(np.ones((1, 2)))
    array([[1., 1.]])
    """

    A: Array | None = None
    landmarks: Array | None = None
    H: Array | None = None

    def __call__(self, Z: Array) -> Array:
        """Rows in the space."""
        from hedgerow.kernels.rows import times

        if self.landmarks is not None:
            K = quadratic(times(Z, self.landmarks.T))
            return K if self.A is None else times(K, self.A)
        if self.H is not None:
            return np.asarray(unit(symmetric_product(Z, self.H)))
        return Z if self.A is None else np.asarray(unit(times(Z, self.A)))

    def without_root(self) -> tuple[Map, Array | None]:
        """The kernel's own values k(z L') as the map, and the A that is left out, where this costs less.

        A regression on k A with weights M and covariance P is one on k, with A M and A P A': the same numbers.
        """
        if self.A is None or self.landmarks is None or self.A.shape[1] < NEARLY_ALL * len(self.A):
            return self, None
        return Map(landmarks=self.landmarks), self.A

    def arrays(self) -> dict[str, Array]:
        """What is learned, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


class Maps:
    """Several maps of the same rows; those by unit(z A) share one product if they have the same dimension.

    >>> Maps([Map(), Map(A=np.array([[2.0], [0.0]]))])(np.ones((1, 2)))
    [array([[1., 1.]]), array([[1.]])]
    """

    def __init__(self, maps: Sequence[Map]) -> None:
        self.maps = maps
        linear = {i: each.A for i, each in enumerate(maps) if each.A is not None and each.landmarks is None}
        widths = {A.shape[1] for A in linear.values()}
        self.width = widths.pop() if len(widths) == 1 else 0
        self.shared = dict(zip(linear, range(len(linear)), strict=True)) if self.width else {}
        self.A = np.empty((0, 0))
        if self.width:
            parts = list(linear.values())
            self.A = on_large_pages((len(parts[0]), self.width * len(parts)), parts[0].dtype)
            np.concatenate(parts, axis=1, out=self.A)

    def __call__(self, Z: Array) -> list[Array]:
        """The rows in every space."""
        from hedgerow.kernels.rows import times

        shared = unit(times(Z, self.A).reshape(len(Z), -1, self.width)) if self.width else Z
        return [shared[:, self.shared[i]] if i in self.shared else each(Z) for i, each in enumerate(self.maps)]


def whitening(sources: Sequence[Array], codes: Sequence[Array], K: int) -> Map:
    """Within-class whitening of all sources together."""
    return Map(H=within_class_root(np.vstack(sources), np.concatenate(codes), K)[0])


def landmarks(sources: Sequence[Array], pool: Array, rng: np.random.Generator, rank: int | None = None) -> Map:
    """Quadratic features over landmarks from the pool (at most a third) and from every source alike."""
    L = drawn(sources, pool, LANDMARKS, rng)
    return Map(kernel_root(L, rank)[0], L)


def leading_axes(parts: Sequence[Array], rank: int) -> Array:
    """The leading eigenvectors of the second moments of all rows together (m x rank).

    >>> leading_axes([np.array([[3.0, 0.0], [0.0, 1.0]])], 1).round(6).ravel().tolist()
    [1.0, 0.0]
    """
    gram = sum(rows.T @ rows for rows in parts)
    axes = np.linalg.eigh(gram)[1][:, ::-1][:, :rank]
    return np.asarray(axes * np.sign(axes[abs(axes).argmax(axis=0), np.arange(axes.shape[1])]))


def whitened_pca(source: Array, pool: Array) -> Map:
    """Leading directions of source and warm-up together, each scaled to the same second moment."""
    return Map(whitened_axes([source, pool], PCA_DIM)[0])
