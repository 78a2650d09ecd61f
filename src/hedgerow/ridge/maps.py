"""Feature maps of the spaces, for rows that are of unit length already: whitening, leading axes, kernel landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from hedgerow.core.arrays import Array, Matrix, stack_rows
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import ROUNDING, one_blas_thread
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import unit
from hedgerow.core.source_rows import Gram, Part, SourceRows, Statistic, summed

USUAL = 1024.0  # rows of this length, or of one over it, are still taken as they are;
KERNEL_USUAL = 16.0  # for the kernel it is less, as its features grow with the fourth power
SQUARED = 490  # of a larger power of two the square would overflow
OCTAVES = 1100  # powers of two up to which lengths are told apart: all that numbers can have
OUTLIER = 1e3  # times the usual length: a landmark is not longer
SMALLEST = 1e-15  # numbers down to it, and up to one over it, are safe in single precision
FAR = 1e12  # an inner product with a landmark counts as no larger, so that its square is a number to compute with
WIDE = 4096  # features beyond which no Gram matrix is made where a rank was asked for,
PASSES = 4  # but so many passes over the rows,
FEW_ROWS = 2000  # or, of so few rows, their inner products
TARGET_SHARE = 3  # one landmark in three may come from the target
KERNEL_TOLERANCE = (
    1e-6  # of the largest eigenvalue: a direction below is two landmarks that are nearly the same
)
NEARLY_ALL = (
    0.8  # share of the landmarks: a space of fewer dimensions is cheaper than one of all landmarks
)


@dataclass(frozen=True)
class Map:
    """z -> z, or unit(z A), or z axes; with landmarks L it is k(z L'), or k(z L') A.

    The matrices are rounded to single precision, as features need no more, and stay so in memory; products with them
    are of double precision, so that a row alone and a block of rows get the same numbers.

    >>> Map()(np.ones((1, 2)))
    array([[1., 1.]])
    """

    A: Array | None = None
    landmarks: Array | None = None
    axes: Array | None = None

    def __call__(self, Z: Array) -> Array:
        """Rows in the space."""
        if self.landmarks is not None:
            c = times(Z, self.landmarks.T)
            K = quadratic(np.clip(c, -FAR, FAR, out=c))
            return K if self.A is None else times(K, self.A)
        if self.axes is not None:
            return times(Z, self.axes)
        if self.A is None:
            return Z
        return np.asarray(unit(times(Z, self.A)))

    @property
    def matrix(self) -> Array | None:
        """What rows, or their products with the landmarks, are multiplied with."""
        return self.axes if self.A is None else self.A

    def without_root(self) -> tuple[Map, Array | None]:
        """The kernel's own values k(z L') as the map, and the A that is left out, where this costs less.

        A regression on k A with weights M and covariance P is one on k, with A M and A P A': the same numbers.
        """
        if self.A is None or self.landmarks is None:
            return self, None
        if self.A.shape[1] < NEARLY_ALL * len(self.A):
            return self, None
        return Map(landmarks=self.landmarks), self.A

    def arrays(self) -> dict[str, Array]:
        """What is learned, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


def times(Z: Array, M: Array) -> Array:
    """Z M in the precision of Z, whatever that of M is."""
    return np.asarray(Z @ M.astype(Z.dtype, copy=False))


def single(A: Array) -> Array:
    """In single precision, if its numbers are of a usual size.

    >>> single(np.ones(1)).dtype.name, single(np.full(1, 1e30)).dtype.name
    ('float32', 'float64')
    """
    largest = float(np.abs(A).max(initial=0.0))
    return A.astype(np.float32) if largest == 0 or SMALLEST < largest < 1 / SMALLEST else A


@dataclass(frozen=True)
class Times:
    """Rows times a matrix; then, if wanted, brought to unit length."""

    A: Array
    to_unit: bool = False

    def __call__(self, X: Matrix) -> Array:
        """The products."""
        Z = X @ self.A
        return np.asarray(unit(Z) if self.to_unit else Z)


def whitening(
    sources: Sequence[SourceRows], pool: Array, gram: Array, moments: Moments, dim: int
) -> Map:
    """Within-class whitening of all sources together; of its directions those along which rows differ most.

    `gram` and `moments` are those of all sources' rows, each counted once.
    """
    H = within_class_root(gram, moments)[0]
    if dim < len(H):
        step = Times(H, to_unit=True)
        H = H @ leading_axes(sum(summed(sources, Gram(step)), Gram(step).of(Part(pool))), dim)
    return Map(A=single(H))


def leading(gram: Array, dim: int) -> Map:
    """The input, or its leading directions if it has more features than `dim`; `gram` is that of all rows."""
    return Map(axes=single(leading_axes(gram, dim))) if dim < len(gram) else Map()


def landmarks(
    sources: Sequence[SourceRows],
    pool: Array,
    rng: np.random.Generator,
    count: int,
    rank: int | None = None,
) -> Map:
    """Quadratic features over landmarks from the pool (at most a third) and from every source alike.

    They are meant for rows of about unit length. Others are brought to it, by a factor of all landmarks, which is in
    the landmarks twice: once for theirs, once for the rows that they will be multiplied with.
    """
    L, scale = at_unit_length(drawn(sources, pool, count, rng))
    return Map(kernel_root(L, rank)[0], single(L / scale))


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
    scale = _power_of_two(float(np.log2(_median(lengths)) + np.log2(unit_of_length)), KERNEL_USUAL)
    return rows / scale if scale != 1 else rows, scale


def octaves(rows: Array) -> Array:
    """How many rows are about 2^k long, k = -OCTAVES..OCTAVES; a zero row is none of them. Counts merge by adding.

    >>> np.flatnonzero(octaves(np.array([[3.0, 4.0], [0.0, 0.0]]))) - OCTAVES
    array([2])
    """
    lengths, unit_of_length = _lengths(rows)
    exponents = np.log2(lengths[lengths > 0]) + np.log2(unit_of_length)
    places = np.clip(np.round(exponents), -OCTAVES, OCTAVES).astype(np.int64) + OCTAVES
    return np.bincount(places, minlength=2 * OCTAVES + 1)


def usual_length(counts: Array) -> float:
    """The median length of rows, as a power of two, from their `octaves`; 1 if it is not far from that.

    >>> usual_length(octaves(np.array([[3.0, 4.0]]))), usual_length(octaves(np.full((2, 4), 4e100)))
    (1.0, 6.99...e+100)
    """
    if not counts.any():
        return 1.0
    median = np.searchsorted(np.cumsum(counts), (counts.sum() + 1) // 2) - OCTAVES
    return _power_of_two(float(median), USUAL)


def _lengths(rows: Array) -> tuple[Array, float]:
    """|x| of each row over the largest number in all of them, and that number: no square overflows, or vanishes."""
    largest = float(np.abs(rows).max(initial=0.0)) or 1.0
    return np.linalg.norm(rows / largest, axis=1), largest


def _median(lengths: Array) -> float:
    return float(np.median(lengths[lengths > 0])) if lengths.any() else 1.0


def _power_of_two(exponent: float, usual: float) -> float:
    """The power of two nearest to 2^exponent, which divides without rounding; 1 within a factor of `usual` of 1."""
    if abs(exponent) <= np.log2(usual):
        return 1.0
    return float(2.0 ** np.clip(np.round(exponent), -SQUARED, SQUARED))


def leading_axes(gram: Array, rank: int) -> Array:
    """The leading eigenvectors of the second moments of all rows together (m x rank).

    >>> rows = np.array([[3.0, 0.0], [0.0, 1.0]])
    >>> leading_axes(rows.T @ rows, 1).round(6).ravel().tolist()
    [1.0, 0.0]
    """
    axes = np.linalg.eigh(gram)[1][:, ::-1][:, :rank]
    return np.asarray(axes * np.sign(axes[abs(axes).argmax(axis=0), np.arange(axes.shape[1])]))


@dataclass(frozen=True)
class GramTimes(Statistic[Array]):
    """X^T (X Q), without the Gram matrix."""

    Q: Array

    def of(self, part: Part) -> Array:
        """Two products."""
        return np.asarray(part.X.T @ (part.X @ self.Q))


def input_axes(sources: Sequence[SourceRows], pool: Array, rank: int) -> Array:
    """The leading directions of all rows (m x rank); of very wide rows by subspace iteration, a pass over them each.

    Halko, Martinsson and Tropp, Finding structure with randomness, SIAM Review 53 (2011). Of few wide rows by their
    inner products: with X X' = U D U' the directions are X' U D^(-1/2).
    """
    m = pool.shape[1]
    if m > WIDE and sum(source.count for source in sources) + len(pool) <= FEW_ROWS:
        X = np.vstack([*(source.gathered() for source in sources), pool])
        with (
            uninterrupted(),
            one_blas_thread,
        ):  # with several threads OpenBLAS has crashed on products of this shape
            values, U = np.linalg.eigh(X @ X.T)
            order = np.argsort(-values)[:rank]
            order = order[values[order] > ROUNDING * values.max()]
            if not len(order):  # rows of zeros: any direction does
                return np.eye(m, 1)
            return np.asarray(X.T @ (U[:, order] / np.sqrt(values[order])))
    if m <= WIDE or 2 * rank >= m:
        return leading_axes(reduce(add, [*summed(sources, Gram()), pool.T @ pool]), rank)
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(m, rank + 10)))[0]
    for _ in range(PASSES):
        times = GramTimes(Q)
        image = reduce(add, [*summed(sources, times), times.of(Part(pool))])
        inner = Q.T @ image
        Q = np.linalg.qr(image)[0]
    R = Q.T @ image  # Q R is the Gram matrix times the directions before
    return np.asarray(Q @ leading_axes(R @ np.linalg.pinv(inner) @ R.T, rank))


def quadratic(c: Array) -> Array:
    """(c + c^2)/2 of a cosine c: linear and second-degree features in equal parts."""
    return np.asarray((c + c * c) / 2)


def within_class_root(gram: Array, moments: Moments) -> tuple[Array, Array]:
    """H (m x m) = (C_w + mean eig(C_w) I)^{-1/2}, and the eigenvalues of C_w, smallest first.

    From X^T X and the moments of the same rows, each counted once.
    """
    means = moments.means[1:]
    counts = moments.class_counts
    within = (gram - (means.T * counts) @ means) / moments.count[0]
    values, Q = np.linalg.eigh(within)
    values = np.maximum(values, 0)
    shrink = values.mean()
    return (Q * (values + (shrink if shrink > 0 else 1.0)) ** -0.5) @ Q.T, values


def drawn(
    sources: Sequence[SourceRows], target: Matrix, count: int, rng: np.random.Generator
) -> Matrix:
    """At most `count` rows: a third (without sources all) of the target's, the rest from every source alike."""
    taken = min(target.shape[0], count // TARGET_SHARE if sources else count)
    each = (count - taken) // max(len(sources), 1)
    parts = [target[rng.choice(target.shape[0], taken, replace=False)]] if taken else []
    return stack_rows([*parts, *(source.drawn(each, rng) for source in sources)])


def kernel_root(landmarks: Array, dim: int | None = None) -> tuple[Array, Array]:
    """Q L^{-1/2} of the kernel matrix of the landmarks, and L; directions below the tolerance are left out."""
    values, Q = np.linalg.eigh(quadratic(landmarks @ landmarks.T))
    kept = values > KERNEL_TOLERANCE * values.max()
    kept[: max(0, len(values) - (dim or len(values)))] = False
    return Q[:, kept] * values[kept] ** -0.5, values[kept]
