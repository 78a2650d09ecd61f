"""The spaces of our own learner, as aligners for every method.

| aligner        | z                                           | learned from                                   |
|----------------|---------------------------------------------|------------------------------------------------|
| `whitening`    | x H, H = (C_w + mean eig(C_w) I)^{-1/2}      | C_w, the within-class covariance of the source |
| `whitened-pca` | x Q L^{-1/2}, the leading d of Q L Q^T       | second moments of source and target together   |
| `landmarks`    | k(x, l) Q L^{-1/2}, the leading d of K_ll    | rows l drawn from source and target (Nystrom)  |

None of them moves the source towards the target: give them rows that are centred domain by domain (the step `centre`).
k is the quadratic kernel (c + c^2)/2 of the cosine c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from hedgerow.align.base import Alignment, Info, OfStatistics, Projection, no_direction, quadratic
from hedgerow.core.arrays import DENSE_LIMIT, Array, Matrix, blocks, dense, stack_rows
from hedgerow.core.errors import InputError
from hedgerow.core.linalg import symmetric_power
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import unit
from hedgerow.core.source_rows import ClassMoments, Gram, InMemory, Part, SourceRows, Statistic, summed


@dataclass(frozen=True)
class CORAL(OfStatistics):
    r"""Correlation alignment: the source gets the covariance of the target, which stays as it is.

    .. math:: x_s \leftarrow x_s C_s^{-1/2} C_t^{1/2}, \qquad C = \mathrm{cov} + \text{ridge} \cdot I

    As ridge goes to 0 the covariance of the mapped source becomes that of the target. Fewer than two target rows give
    no covariance: the source then stays as it is. It needs matrices of m x m.

    Parameters
    ----------
    ridge : float
        Added to both covariances; 1 is the authors'.

    References
    ----------
    B. Sun, J. Feng, K. Saenko. Return of frustratingly easy domain adaptation. AAAI, 2016.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> source, target = rng.normal(size=(400, 2)) * [1.0, 5.0], rng.normal(size=(400, 2))
    >>> projection = CORAL(ridge=1e-6).fit(source, np.zeros(400, dtype=int), target).projection
    >>> np.allclose(np.cov(projection.mapped(source).T), np.cov(target.T), atol=1e-3)
    True
    """

    ridge: float = 1.0

    def fit_rows(self, source: SourceRows, K: int, target: Matrix) -> Alignment:
        """The map of the source; the projection of the target is the identity."""
        m = source.width
        if target.shape[0] < 2 or source.count < 2:
            return Alignment(Projection(), Info(rank=m, note="fewer than two rows: the source stays as it is"))
        scatter = ClassMoments(0, weighed=False, scatter=True)
        Cs, Ct = (self._covariance(rows.totals(scatter)[0]) for rows in (source, InMemory(dense(target))))
        M = symmetric_power(Cs, -0.5) @ symmetric_power(Ct, 0.5)
        before = float(np.linalg.norm(Cs - Ct) ** 2)
        after = float(np.linalg.norm(M.T @ Cs @ M - Ct) ** 2)
        return Alignment(Projection(source_map=M), Info(discrepancy=[before, after], rank=m))

    def _covariance(self, moments: Moments) -> Array:
        return np.asarray(moments.scatter / (moments.count - 1) + self.ridge * np.eye(len(moments.total)))


# The leading directions of more rows than can be kept: frequent directions (Liberty 2013), a sketch that merges.
#
# At most `size` rows B stand for all rows X: 0 <= X^T X - B^T B <= lost I. When there are more rows than that, their
# singular values are all made smaller, s^2 -> s^2 - s_size^2, so that the last ones vanish; `lost` is the sum of what
# was taken off, and so the error is known, not guessed. It is at most |X - X_k|_F^2/(size - k) for every k < size,
# X_k the best approximation of X by k directions.
@dataclass(frozen=True)
class Sketch:
    """B (at most `size` x m), and the largest error of B^T B in any direction."""

    rows: Array
    lost: float


@dataclass(frozen=True)
class Directions(Statistic[Sketch]):
    """The sketch of rows.

    >>> X = np.random.default_rng(0).normal(size=(200, 6)) * [9.0, 5.0, 1.0, 0.1, 0.1, 0.1]
    >>> sketch = Directions(4).of(Part(X))
    >>> error = np.linalg.eigvalsh(X.T @ X - sketch.rows.T @ sketch.rows)
    >>> sketch.rows.shape, bool(error[0] > -1e-9), bool(error[-1] <= sketch.lost + 1e-9)
    ((4, 6), True, True)
    """

    size: int

    def of(self, part: Part) -> Sketch:
        """Of some rows, as many at once as the sketch has."""
        sketch = Sketch(np.empty((0, part.X.shape[1])), 0.0)
        for some in blocks(part.X, self.size):
            sketch = self.merge(sketch, Sketch(dense(some).astype(np.float64, copy=False), 0.0))
        return sketch

    def merge(self, a: Sketch, b: Sketch) -> Sketch:
        """Of both."""
        rows, lost = np.vstack([a.rows, b.rows]), a.lost + b.lost
        if len(rows) <= self.size:
            return Sketch(rows, lost)
        values, U = np.linalg.eigh(rows @ rows.T)
        values, U = np.maximum(values[::-1], 0.0), U[:, ::-1]
        off = float(values[self.size])
        kept, U = values[: self.size], U[:, : self.size]
        scale = np.sqrt(np.maximum(kept - off, 0.0) / np.where(kept > 0, kept, 1.0))
        return Sketch(scale[:, None] * (U.T @ rows), lost + off)


LANDMARKS = 1000  # at most; 600 left small sources uncovered, 2000 gained nothing
TARGET_SHARE = 3  # one landmark in three may come from the target
KERNEL_TOLERANCE = 1e-6  # of the largest eigenvalue: a direction below is two landmarks that are nearly the same
FLOOR = 1e-9  # added to an eigenvalue before dividing by its root
WIDE = 4  # features per row: beyond, the Gram matrix of the rows is the smaller one to decompose


@dataclass(frozen=True)
class Whitening(OfStatistics):
    r"""z = x H: within the classes of the source every direction varies alike, but for a shrinkage towards the mean.

    .. math:: H = (C_w + \bar\lambda I)^{-1/2}

    C_w is the within-class covariance of the source and the shrinkage its mean eigenvalue. It keeps a matrix of m x m;
    for many features use `WhitenedPCA`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.arange(200) % 2
    >>> source = rng.normal(size=(200, 2)) * [5.0, 0.5] + codes[:, None]
    >>> Z = Whitening().fit(source, codes, source[:0]).projection(source)
    >>> source[codes == 0].std(axis=0).round(1).tolist(), Z[codes == 0].std(axis=0).round(1).tolist()
    ([4.7, 0.4], [0.8, 0.1])
    """

    def fit_rows(self, source: SourceRows, K: int, target: Matrix) -> Alignment:
        """H from the source alone; the target is not looked at."""
        m = source.width
        _affordable("aligner 'whitening'", m, m, "use aligner='whitened-pca', which keeps m x dim")
        H, values = within_class_root(*source.totals(Gram(), ClassMoments(K, weighed=False)))
        return Alignment(Projection(H), Info(rank=m, eigenvalues=values[::-1]))


@dataclass(frozen=True)
class WhitenedPCA(OfStatistics):
    r"""z = x Q L^{-1/2}: the leading axes of source and target together, each scaled to the same second moment.

    Parameters
    ----------
    dim : int
        Largest number of axes.
    sketch : int, optional
        Directions that are followed instead of a Gram matrix (frequent directions, Liberty 2013), at least `dim`: for
        sources in partitions whose m x m matrix is too large. `Info.note` says how far off the axes may be.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(300, 4)) * [9.0, 3.0, 1.0, 0.1]
    >>> Z = WhitenedPCA(dim=2).fit(rows[:200], np.zeros(200, dtype=int), rows[200:]).projection(rows)
    >>> np.allclose(Z.T @ Z, np.eye(2))
    True
    """

    dim: int = 100
    sketch: int | None = None  # directions that are followed instead of a Gram matrix; see `Sketch`

    def fit_rows(self, source: SourceRows, K: int, target: Matrix) -> Alignment:
        """The axes; those along which no row differs from zero are left out."""
        _at_least_one(dim=self.dim)
        note = ""
        if self.sketch is None:
            A, values = whitened_axes([source], target, self.dim)
        else:
            A, values, note = self._sketched(source, target, self.sketch)
        rounding = max(source.count, source.width) * np.finfo(values.dtype).eps
        kept = values > rounding * values[:1]
        if not kept.any():
            raise no_direction(source.count + target.shape[0], "zero")
        return Alignment(Projection(A[:, kept]), Info(rank=int(kept.sum()), eigenvalues=values[kept], note=note))

    def _sketched(self, source: SourceRows, target: Matrix, size: int) -> tuple[Array, Array, str]:
        """The axes from few directions that stand for all rows, and how far off they may be."""
        if size < self.dim:
            raise InputError(f"sketch={size}: fewer directions than dim={self.dim}; give at least twice as many")
        statistic = Directions(size)
        sketch = statistic.merge(source.totals(statistic)[0], statistic.of(Part(target)))
        values, U = _leading(sketch.rows @ sketch.rows.T, self.dim)
        A = sketch.rows.T @ U / np.maximum(values, FLOOR)
        share = 100 * sketch.lost / max(values[0], FLOOR)
        note = (
            f"a sketch of {size} directions: no second moment is off by more than {sketch.lost:.3g}, {share:.2g} % of "
            "the largest"
        )
        return A, values, note


@dataclass(frozen=True)
class Landmarks(OfStatistics):
    """z = k(x, landmarks) Q L^{-1/2}: features whose inner products are those of the quadratic kernel, near the rows.

    A Nyström approximation of the kernel (c + c^2)/2 of the cosine c. Use it where classes are not linearly separable;
    a row costs a product with all landmarks.

    Parameters
    ----------
    dim : int
        Largest number of features.
    count : int
        Landmarks at most, a third of them from the target.
    seed : int
        By which they are drawn.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(12, 3))
    >>> Z = Landmarks(count=24).fit(rows, np.arange(12) % 2, rows[:0]).projection(rows)
    >>> c = (rows @ rows.T) / np.outer(*2 * [np.linalg.norm(rows, axis=1)])
    >>> np.allclose(Z @ Z.T, (c + c * c) / 2)
    True
    """

    dim: int = 100
    count: int = LANDMARKS
    seed: int = 0

    def fit_rows(self, source: SourceRows, K: int, target: Matrix) -> Alignment:
        """Landmarks from the rows given, then the root of their kernel matrix."""
        _at_least_one(dim=self.dim, count=self.count)
        chosen = drawn([source], target, self.count, np.random.default_rng(self.seed))
        _affordable("aligner 'landmarks'", chosen.shape[0], source.width, "give it a smaller count")
        L = dense(unit(chosen))
        A, values = kernel_root(L, self.dim)
        if not len(values):
            raise no_direction(source.count + target.shape[0], "zero")
        return Alignment(Projection(A, landmarks=L, gamma=None), Info(rank=len(values), eigenvalues=values))


def within_class_root(gram: Array, moments: Moments) -> tuple[Array, Array]:
    """H (m x m) = (C_w + mean eig(C_w) I)^{-1/2}, and the eigenvalues of C_w, smallest first.

    From X^T X and the moments of the same rows, each counted once.
    """
    means, counts = moments.class_means, moments.class_counts
    within = (gram - (means.T * counts) @ means) / moments.count[0]
    values, Q = np.linalg.eigh(within)
    values = np.maximum(values, 0)
    shrink = values.mean()
    return (Q * (values + (shrink if shrink > 0 else 1.0)) ** -0.5) @ Q.T, values


def whitened_axes(
    sources: Sequence[SourceRows], target: Matrix, dim: int, grams: Sequence[Array] | None = None
) -> tuple[Array, Array]:
    """Q L^{-1/2} (m x dim) and L, largest first, of Q L Q^T = sum X^T X over the sources (`grams`) and the target.

    Where rows are few the eigenvectors U of X X^T give the same axes, Q = X^T U L^{-1/2}.
    """
    if is_wide(sources, target):
        rows = stack_rows([*(source.gathered() for source in sources), target])
        values, U = _leading(dense(rows @ rows.T), dim)
        Q = np.asarray(rows.T @ U) / np.sqrt(np.maximum(values, FLOOR))
    else:
        grams = summed(sources, Gram()) if grams is None else grams
        values, Q = _leading(reduce(add, [*grams, dense(target.T @ target)]), dim)
    return Q / np.sqrt(np.maximum(values, 0) + FLOOR), values


def is_wide(sources: Sequence[SourceRows], target: Matrix) -> bool:
    """Whether the rows are so few that they are kept more cheaply than their Gram matrix."""
    return bool(target.shape[1] > WIDE * (target.shape[0] + sum(source.count for source in sources)))


def drawn(sources: Sequence[SourceRows], target: Matrix, count: int, rng: np.random.Generator) -> Matrix:
    """At most `count` rows: a third (or all) of the target's, the rest from every source alike."""
    taken = min(target.shape[0], count // TARGET_SHARE)
    each = (count - taken) // max(len(sources), 1)
    parts = [target[rng.choice(target.shape[0], taken, replace=False)]] if taken else []
    return stack_rows([*parts, *(source.drawn(each, rng) for source in sources)])


def kernel_root(landmarks: Array, dim: int | None = None) -> tuple[Array, Array]:
    """Q L^{-1/2} of the kernel matrix of the landmarks, and L; directions below the tolerance are left out."""
    values, Q = np.linalg.eigh(quadratic(landmarks @ landmarks.T))
    kept = values > KERNEL_TOLERANCE * values.max()
    kept[: max(0, len(values) - (dim or len(values)))] = False
    return Q[:, kept] * values[kept] ** -0.5, values[kept]


def _leading(gram: Array, dim: int) -> tuple[Array, Array]:
    values, Q = np.linalg.eigh(gram)
    return values[::-1][:dim], Q[:, ::-1][:, :dim]


def _at_least_one(**options: int) -> None:
    for name, value in options.items():
        if value < 1:
            raise InputError(f"{name}={value}: must be at least 1")


def _affordable(what: str, rows: int, columns: int, remedy: str) -> None:
    size = 8 * rows * columns
    if size > DENSE_LIMIT:
        raise InputError(
            f"{what} keeps a dense matrix of {rows} x {columns}, which would take {size / 2**30:.1f} GiB; {remedy}"
        )


__all__ = ["Landmarks", "WhitenedPCA", "Whitening"]
