"""The eigenproblem of TCA, JDA and BDA, (lam I + V V^T) A = S A Phi, solved for one S and many V.

S = X^T H X is the centred scatter of the N rows of X, and V = X^T E^T (m x k) are k contrasts of rows: each row of E
(k x N, sparse) weighs the instances. S is factorised once, by the smaller of its two Gram matrices; then every V costs
a few products with what is left of it, and no m x m or N x N matrix of V's is built.

    S = R R^T, R^T R = diag(L)     tall, N >= m:  X^T H X = Q L Q^T, R = Q L^{1/2}
                                   wide, N <  m:  H X X^T H = U L U^T, R = X^T U
    C C^T = lam I + V^T V,  F = (C^{-1} V^T R)^T
    (L - F F^T) y = lam theta y    symmetric, diagonal minus rank k; theta = 1/Phi, largest first
    a = (R y - V t)/lam            t = (C C^T)^{-1} V^T R y, and V^T a = t: the gap that is left

V itself stands in a, not its part in the span of S: they differ where a contrast does not sum to zero.
With a^T S a = theta^2 and a^T (lam I + V V^T) a = theta every length is known without forming a.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense, is_sparse
from hedgerow.core.linalg import diagonal_minus_low_rank, fix_signs

GRAM_BLOCK = 512  # rows or features centred at once
RANK_TOLERANCE = 1e-12  # of the largest eigenvalue: what is below is rounding, not data


@dataclass(frozen=True)
class Solution:
    """The leading y (r x d) for one V, with t = V^T a (k x d), the values theta = 1/Phi and the length of each a."""

    Y: Array
    T: Array
    values: Array
    lengths: Array
    E: Matrix
    lam: float

    def scales(self, scaling: str) -> Array:
        """What a is divided by: "unit" makes |a| = 1, "S" makes a^T S a = 1."""
        return self.lengths if scaling == "unit" else self.values


class Scatter(ABC):
    """X^T H X of rows X, factorised; made by `scatter(X)`. `values` are its eigenvalues L, largest first."""

    values: Array

    def solve(self, E: Matrix, lam: float, dim: int) -> Solution:
        """The `dim` best directions for V = X^T E^T, or fewer where V V^T leaves fewer above rounding."""
        import scipy.linalg

        VR, VV = self._contrasted(E)
        C = np.linalg.cholesky(lam * np.eye(len(VV)) + VV)
        F = scipy.linalg.solve_triangular(C, VR, lower=True, check_finite=False).T
        core, Y = diagonal_minus_low_rank(self.values, F, min(dim, len(self.values)))
        kept = core > len(self.values) * np.finfo(core.dtype).eps * self.values[0]  # below, L - F F^T is only rounding
        Y, theta = Y[:, kept], core[kept] / lam
        T = scipy.linalg.cho_solve((C, True), VR @ Y, check_finite=False)
        lengths = np.sqrt(np.maximum(theta - (T * T).sum(axis=0), np.finfo(theta.dtype).eps * theta) / lam)
        return Solution(Y, T, theta, lengths, E, lam)

    def directions(self, solution: Solution, scaling: str) -> Array:
        """A (m x d). The entry of largest size in each column is positive."""
        A = self._directions(solution)
        A /= np.sqrt(np.einsum("ij,ij->j", A, A)) if scaling == "unit" else solution.values
        return fix_signs(A)

    @abstractmethod
    def projected(self, solution: Solution, scaling: str) -> Array:
        """X A (N x d), but for the signs of its columns."""

    @abstractmethod
    def _contrasted(self, E: Matrix) -> tuple[Array, Array]:
        """V^T R (k x r) and V^T V (k x k)."""

    @abstractmethod
    def _directions(self, solution: Solution) -> Array:
        """a = (R y - V t)/lam."""


def scatter(X: Matrix) -> Scatter:
    """The centred scatter of the rows of X, factorised in double precision by the smaller of its Gram matrices.

    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 3.0]])
    >>> np.allclose(scatter(X).values.sum(), 3 * X.var(axis=0).sum())
    True
    """
    X = X.astype(np.float64, copy=False)
    return _Tall(X) if X.shape[1] <= X.shape[0] else _Wide(X)


class _Tall(Scatter):
    """At least as many rows as features: Q and L of the m x m scatter."""

    def __init__(self, X: Matrix) -> None:
        mean = np.asarray(X.mean(axis=0)).ravel()
        if is_sparse(X):
            S = dense(X.T @ X) - X.shape[0] * np.outer(mean, mean)
        else:
            S = _centred_gram(X, mean, axis=0)
        self.X = X
        self.values, self.Q = _eigenvectors(S)

    def _contrasted(self, E: Matrix) -> tuple[Array, Array]:
        V = dense(E @ self.X)
        return (V @ self.Q) * np.sqrt(self.values), V @ V.T

    def _directions(self, solution: Solution) -> Array:
        RY = self.Q @ (np.sqrt(self.values)[:, None] * solution.Y)
        return np.asarray(RY - dense(solution.E @ self.X).T @ solution.T) / solution.lam

    def projected(self, solution: Solution, scaling: str) -> Array:
        return np.asarray(self.X @ (self._directions(solution) / solution.scales(scaling)))


class OfMoments(Scatter):
    """The scatter itself (m x m), without the rows; a contrast is then the sum over the rows, E the k x m V^T."""

    def __init__(self, S: Array) -> None:
        self.values, self.Q = _eigenvectors(np.array(S, dtype=np.float64, order="F"))

    def _contrasted(self, E: Matrix) -> tuple[Array, Array]:
        return (E @ self.Q) * np.sqrt(self.values), E @ E.T

    def _directions(self, solution: Solution) -> Array:
        RY = self.Q @ (np.sqrt(self.values)[:, None] * solution.Y)
        return np.asarray(RY - solution.E.T @ solution.T) / solution.lam

    def projected(self, solution: Solution, scaling: str) -> Array:
        """Nobody has the rows."""
        raise TypeError("the rows are not here")


class _Wide(Scatter):
    """Fewer rows than features: U and L of the N x N Gram matrix; the features are met only at the end.

    With kappa = X mean, K = X X^T is U L U^T + 1 kappa^T + kappa 1^T - mean(kappa), and H X a = theta U y.
    """

    def __init__(self, X: Matrix) -> None:
        mean = np.asarray(X.mean(axis=0)).ravel()
        if is_sparse(X):
            K = dense(X @ X.T)
            K -= K.mean(axis=0)
            K -= K.mean(axis=1, keepdims=True)
        else:
            K = _centred_gram(X, mean, axis=1)
        self.X = X
        self.kappa = np.asarray(X @ mean).ravel()
        self.values, self.U = _eigenvectors(K)
        self.U -= self.U.mean(axis=0)
        self.mean_R = self.kappa @ self.U

    def _contrasted(self, E: Matrix) -> tuple[Array, Array]:
        EU, sums, Ek = E @ self.U, np.asarray(E.sum(axis=1)).ravel(), E @ self.kappa
        VV = (EU * self.values) @ EU.T
        VV += np.outer(sums, Ek) + np.outer(Ek, sums) - self.kappa.mean() * np.outer(sums, sums)
        return EU * self.values + np.outer(sums, self.mean_R), VV

    def _directions(self, solution: Solution) -> Array:
        return np.asarray(self.X.T @ ((self.U @ solution.Y - solution.E.T @ solution.T) / solution.lam))

    def projected(self, solution: Solution, scaling: str) -> Array:
        scales = solution.scales(scaling)
        at_mean = (self.mean_R @ solution.Y - (solution.E @ self.kappa) @ solution.T) / solution.lam
        return np.asarray(self.U @ (solution.Y * (solution.values / scales)) + at_mean / scales)


def _centred_gram(X: Array, mean: Array, axis: int) -> Array:
    """D^T D (axis 0) or D D^T (axis 1) of D = X - mean, its lower triangle; D is built some rows at a time.

    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 3.0]])
    >>> [np.tril(_centred_gram(X, X.mean(axis=0), axis)).tolist() for axis in (0, 1)]
    [[[8.0, 0.0], [6.0, 6.0]], [[5.0, 0.0, 0.0], [1.0, 1.0, 0.0], [-6.0, -2.0, 8.0]]]
    """
    from scipy.linalg.blas import dsyrk

    gram = np.zeros((X.shape[1 - axis],) * 2, order="F")
    for start in range(0, X.shape[axis], GRAM_BLOCK):
        part = slice(start, start + GRAM_BLOCK)
        D = X[part] - mean if axis == 0 else X[:, part] - mean[part]
        gram = dsyrk(1.0, D.T, beta=1.0, c=gram, trans=axis, lower=1, overwrite_c=1)
    return gram


def _eigenvectors(S: Array) -> tuple[Array, Array]:
    """Eigenvalues, largest first, without what is zero up to rounding, and their vectors; S is overwritten.

    Only its lower triangle is read.
    """
    import scipy.linalg

    values, vectors = scipy.linalg.eigh(S, overwrite_a=True, check_finite=False, driver="evd")
    smallest = max(values[-1], 0.0) * max(RANK_TOLERANCE, np.finfo(values.dtype).eps * len(values))
    first = int(np.searchsorted(values, smallest, side="right"))
    return values[first:][::-1], np.ascontiguousarray(vectors[:, first:][:, ::-1])
