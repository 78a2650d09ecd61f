"""Moments of a domain: counts, sums, class sums. They merge, and give two domains' gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense, is_sparse
from hedgerow.core.errors import InputError, unknown

UNSEEN = ("zero", "skip", "shrink")  # what becomes of the gap of a class that the target lacks
KAPPA = 5.0  # instances a class must have before `unseen="shrink"` trusts half of its gap


@dataclass(frozen=True)
class Moments:
    r"""Counts, sums and class sums of the rows of a domain: all that the gaps between two domains depend on.

    .. math:: N, \quad \sum_i x_i, \quad N_k, \quad \sum_{y_i = k} x_i

    Moments are a monoid under `merge`: those of some rows and those of the others give those of all, so rows may
    come in blocks, or from other machines. A row without a label (code -1) counts for the domain and for no class.

    Parameters
    ----------
    counts : array (1 + K,)
        N, a sum of weights where rows are weighed, then N_k of each class.
    totals : array (1 + K, m)
        The sum of the rows, then that of the rows of each class.

    See Also
    --------
    gap : the differences of two domains' means (Eq. 10 and 11 of the paper).

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [3.0, 2.0]]), np.array([0, 1])
    >>> both = Moments.of(X[:1], y[:1], 2).merge(Moments.of(X[1:], y[1:], 2))
    >>> both.means.tolist()
    [[2.0, 1.0], [1.0, 0.0], [3.0, 2.0]]
    """

    counts: Array
    totals: Array

    @classmethod
    def empty(cls, m: int, K: int) -> Moments:
        """The neutral element."""
        return cls(np.zeros(1 + K), np.zeros((1 + K, m)))

    @classmethod
    def of(cls, X: Matrix, y: Array | None, K: int, weight: Array | None = None) -> Moments:
        """One pass over the rows, each counted `weight` times (None: once)."""
        N = X.shape[0] if weight is None else float(weight.sum())
        if weight is not None:
            total = np.asarray(X.T @ weight, dtype=np.float64)
        else:
            total = X.T @ np.ones(X.shape[0]) if is_sparse(X) else X.sum(axis=0, dtype=np.float64)
        codes = np.full(X.shape[0], -1) if y is None else y
        counts, totals = class_sums(X, codes, K, weight)
        return cls(np.append(float(N), counts), np.vstack([total, totals]))

    def first(self, width: int) -> Moments:
        """Of the first columns (below 0: all but the last)."""
        return Moments(self.counts, self.totals[:, :width])

    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of rows."""
        if self.totals.shape != other.totals.shape:
            raise InputError(
                f"moments of {self.class_totals.shape[::-1]} (features, classes) cannot be merged with those of "
                f"{other.class_totals.shape[::-1]}"
            )
        return Moments(self.counts + other.counts, self.totals + other.totals)

    __add__ = merge

    def padded(self, K: int) -> Moments:
        """The same with K classes; of those beyond its own it has no instance.

        >>> Moments.empty(1, 2).padded(3).class_counts.tolist()
        [0.0, 0.0, 0.0]
        """
        extra = 1 + K - len(self.counts)
        return Moments(np.pad(self.counts, (0, extra)), np.pad(self.totals, ((0, extra), (0, 0))))

    def add(self, X: Matrix, y: Array, weight: Array | None = None) -> None:
        """Add labelled rows (y >= 0) in place, each counted `weight` times (None: once).

        >>> moments = Moments.empty(1, 2)
        >>> moments.add(np.array([[3.0], [5.0]]), np.array([1, -1]))
        >>> moments.total.tolist(), moments.class_counts.tolist()
        ([3.0], [0.0, 1.0])
        """
        if len(y) == 1 and not is_sparse(X):  # one row needs no matrix of all classes
            times = 1.0 if weight is None else float(weight[0])
            for at in (0, 1 + y[0]) if y[0] >= 0 else ():
                self.counts[at] += times
                self.totals[at] += times * X[0]
            return
        counts, totals = class_sums(X, y, len(self.class_counts), weight)
        self.counts[:] += np.append(counts.sum(), counts)
        self.totals[0] += totals.sum(axis=0)
        self.totals[1:] += totals

    count = property(lambda self: self.counts[:1], doc="N (1).")
    total = property(lambda self: self.totals[0], doc="The sum of all rows (m).")
    class_counts = property(lambda self: self.counts[1:], doc="N_k (K).")
    class_totals = property(lambda self: self.totals[1:], doc="The sums of each class (K x m).")

    @property
    def means(self) -> Array:
        """The mean of all rows, then that of each class (K+1 x m); a zero row where there are no instances."""
        return np.asarray(self.totals / or_one(self.counts)[:, None])

    mean = property(lambda self: self.means[0], doc="Mean of all rows; zero if there are none.")
    class_means = property(lambda self: self.means[1:], doc="Means of the classes (K x m).")

    def arrays(self, prefix: str) -> dict[str, Array]:
        """The moments as named arrays (views: what is added is seen in them)."""
        return {f"{prefix}.counts": self.counts, f"{prefix}.totals": self.totals}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array], prefix: str) -> Moments:
        """The inverse of `arrays`: a copy."""
        return cls(arrays[f"{prefix}.counts"].copy(), arrays[f"{prefix}.totals"].copy())


def or_one(counts: Array) -> Array:
    """Counts to divide by: one in place of zero.

    >>> or_one(np.array([0.0, 0.5, 3.0]))
    array([1. , 0.5, 3. ])
    """
    return np.where(counts > 0, counts, 1.0)


def class_sums(X: Matrix, codes: Array, K: int, weight: Array | None = None) -> tuple[Array, Array]:
    """N_k and sum_{y=k} x for the rows with codes 0..K-1, each counted `weight` times (None: once).

    >>> class_sums(np.array([[1.0], [2.0], [4.0]]), np.array([1, 1, -1]), 2)
    (array([0., 2.]), array([[0.],
           [3.]]))
    """
    import scipy.sparse as sp

    labelled = codes >= 0
    times = np.ones(int(labelled.sum())) if weight is None else weight[labelled]
    counts = np.bincount(codes[labelled], times, minlength=K).astype(np.float64)
    ends = np.concatenate(
        [[0], np.cumsum(labelled)]
    )  # a column a row of X, with its weight at its class
    totals = sp.csc_array((times, codes[labelled], ends), shape=(K, X.shape[0])) @ X
    return counts, dense(totals).astype(np.float64, copy=False)


def gap(source: Moments, target: Moments, unseen: str = "skip", kappa: float = KAPPA) -> Array:
    """g_0 = mean_S - mean_T (Eq. 10) and g_k = mean_S^k - mean_T^k for k = 1..K (Eq. 11), as rows (K+1 x m).

    A class that the source lacks has no gap (a zero row). A class that the target has not shown yet:
    "zero" takes its mean as the zero vector, as the authors' code does, so that g_k is the source's mean itself;
    "skip" leaves it out; "shrink" scales every class gap by n_k/(n_k + kappa), which is 0 for such a class.

    >>> s = Moments.of(np.array([[2.0], [6.0]]), np.array([0, 1]), 2)
    >>> t = Moments.of(np.array([[1.0]]), np.array([0]), 2)
    >>> [gap(s, t, how).ravel().tolist() for how in ("zero", "skip")]
    [[3.0, 1.0, 6.0], [3.0, 1.0, 0.0]]
    """
    weight = gap_weights(source.counts, target.counts, unseen, kappa)
    return (source.means - target.means) * weight[:, None]


def gap_weights(source: Array, target: Array, unseen: str, kappa: float = KAPPA) -> Array:
    """What each gap is multiplied by, from both sides' counts (of all rows, then of each class); see `gap`.

    >>> gap_weights(np.array([2.0, 2.0, 0.0]), np.array([5.0, 5.0, 5.0]), "shrink")
    array([1. , 0.5, 0. ])
    """
    if unseen not in UNSEEN:
        raise unknown("rule for unseen classes", unseen, UNSEEN)
    weight = np.where(source > 0, np.ones_like(target), 0.0)
    weight[..., 0] *= target[0] > 0
    if unseen == "skip":
        weight[..., 1:] *= target[1:] > 0
    elif unseen == "shrink":
        weight[..., 1:] *= target[1:] / (target[1:] + kappa)
    return weight


def discrepancy(A: Array | None, G: Array) -> float:
    """sum_k |A^T g_k|^2, the MMD part of the paper's objective for A (Eq. 12); A = None is the identity.

    >>> discrepancy(None, np.array([[3.0, 4.0]]))
    25.0
    """
    # in one layout: the BLAS sums a transposed matrix in another order, and a process may get its arrays so
    P = G if A is None else np.ascontiguousarray(G) @ np.ascontiguousarray(A)
    return float(np.einsum("ij,ij->", P, P))
