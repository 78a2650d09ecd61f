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
USUAL = 1024.0  # rows of this length, or of one over it, are still taken as they are;
KERNEL_USUAL = 16.0  # for the kernel it is less, as its features grow with the fourth power
SQUARED = 490  # of a larger power of two the square would overflow
OUTLIER = 1e3  # times the usual length: a landmark is not longer
FAR = 1e12  # an inner product with a landmark counts as no larger, so that its square is a number to compute with
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
            c = times(Z, self.landmarks.T)
            K = quadratic(np.clip(c, -FAR, FAR, out=c))
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
    """Quadratic features over landmarks from the pool (at most a third) and from every source alike.

    They are meant for rows of about unit length. Others are brought to it, by a factor of all landmarks, which is in
    the landmarks twice: once for theirs, once for the rows that they will be multiplied with.
    """
    L, scale = at_unit_length(drawn(sources, pool, LANDMARKS, rng))
    return Map(kernel_root(L, rank)[0], L / scale)


def at_unit_length(rows: Array) -> tuple[Array, float]:
    """Landmarks over their usual length, and that length; outliers are shortened.

    >>> at_unit_length(np.array([[3.0, 4.0], [0.0, 1.0]]))[1]
    1.0
    >>> at_unit_length(np.array([[3e100, 4e100], [4e100, 3e100], [1e120, 0.0]]))[0].round(3).tolist()
    [[0.429, 0.571], [0.571, 0.429], [714.367, 0.0]]
    """
    lengths, unit_of_length = _lengths(rows)
    over = lengths / (OUTLIER * _median(lengths))
    if (over > 1).any():
        rows = rows / np.maximum(over, 1.0)[:, None]
    scale = _power_of_two(_median(lengths), unit_of_length, KERNEL_USUAL)
    return rows / scale if scale != 1 else rows, scale


def usual_length(rows: Sequence[Array]) -> float:
    """The median length of some rows, as a power of two; 1 if it is not far from that.

    >>> usual_length([np.array([[3.0, 4.0]])]), usual_length([np.full((2, 4), 4e100)])
    (1.0, 6.99...e+100)
    """
    lengths, unit_of_length = _lengths(np.concatenate(rows)) if rows else (np.ones(1), 1.0)
    return _power_of_two(_median(lengths), unit_of_length, USUAL)


def _lengths(rows: Array) -> tuple[Array, float]:
    """|x| of each row over the largest number in all of them, and that number: no square overflows, or vanishes."""
    largest = float(np.abs(rows).max(initial=0.0)) or 1.0
    return np.linalg.norm(rows / largest, axis=1), largest


def _median(lengths: Array) -> float:
    return float(np.median(lengths[lengths > 0])) if lengths.any() else 1.0


def _power_of_two(length: float, unit_of_length: float, usual: float) -> float:
    """The power of two nearest to a length, which divides without rounding; 1 within a factor of `usual` of 1."""
    exponent = np.log2(length) + np.log2(unit_of_length)
    if abs(exponent) <= np.log2(usual):
        return 1.0
    return float(2.0 ** np.clip(np.round(exponent), -SQUARED, SQUARED))


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
