"""Linear algebra in the forms we need: low-rank generalised eigenvectors, a Woodbury solve, symmetric powers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import Array, Matrix, is_sparse

RANK_TOLERANCE = 1e-12  # of the largest eigenvalue: what is below is rounding, not data


class ScatterRoot(NamedTuple):
    """R (m x r) with R R^T = X^T H X, the centred scatter of the rows of X, and R^T R = diag(values)."""

    R: Array
    values: Array


def scatter_root(X: Matrix) -> ScatterRoot:
    """Root of the centred scatter by the smaller of its two Gram matrices, largest eigenvalue first.

    N >= m: X^T H X = Q L Q^T, R = Q L^{1/2}.  N < m: H X X^T H = U L U^T, R = X^T U. Sparse rows stay sparse.

    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 3.0]])
    >>> R, values = scatter_root(X)
    >>> np.allclose(R @ R.T, 3 * np.cov(X.T, bias=True)), np.allclose(R.T @ R, np.diag(values))
    (True, True)
    """
    import scipy.linalg

    N, m = X.shape
    mean = np.asarray(X.mean(axis=0)).ravel()
    if m <= N:
        if is_sparse(X):
            S = (X.T @ X).toarray() - N * np.outer(mean, mean)
        else:
            D = X - mean
            S = D.T @ D
        values, Q = scipy.linalg.eigh(S, overwrite_a=True, check_finite=False)
        values, Q = _leading(values, Q)
        return ScatterRoot(Q * np.sqrt(values), values)
    if is_sparse(X):
        K = (X @ X.T).toarray()
        K -= K.mean(axis=0)
        K -= K.mean(axis=1, keepdims=True)
    else:
        D = X - mean
        K = D @ D.T
    values, U = scipy.linalg.eigh(K, overwrite_a=True, check_finite=False)
    values, U = _leading(values, U)
    U -= U.mean(axis=0)
    return ScatterRoot(np.asarray(X.T @ U), values)


def _leading(values: Array, vectors: Array) -> tuple[Array, Array]:
    """Descending, without what is zero up to rounding."""
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > max(values[0], 0.0) * max(RANK_TOLERANCE, np.finfo(values.dtype).eps * len(values))
    return values[kept], np.ascontiguousarray(vectors[:, kept])


class Eigenvectors(NamedTuple):
    """Columns a with (V V^T + lam I) a = S a / value: the largest values, which are the smallest Phi = 1/value."""

    A: Array
    values: Array


def low_rank_pencil(root: ScatterRoot, V: Array, lam: float, dim: int, scaling: str) -> Eigenvectors:
    """The `dim` best solutions of (V V^T + lam I) A = S A Phi with S = R R^T, never building an m x m matrix.

    With C C^T = lam I + V^T V and y = R^T a, the problem is the symmetric (L - F F^T)/lam y = y/phi, F = R^T V C^{-T};
    then a = P^{-1} R y with P^{-1} B = (B - V (C C^T)^{-1} V^T B)/lam. V itself stands there, not its part in the span
    of S: they differ when a class has no target row.

    scaling "S": a^T S a = 1.  scaling "unit": |a| = 1. The entry of largest size in each column is positive.
    Shapes: R m x r, V m x k, result m x min(dim, r), or fewer where S is drowned by V V^T.
    """
    import scipy.linalg

    R, L = root
    r = len(L)
    dim = min(dim, r)
    core = np.diag(L)
    if V.shape[1]:
        C = np.linalg.cholesky(lam * np.eye(V.shape[1], dtype=V.dtype) + V.T @ V)
        F = scipy.linalg.solve_triangular(C, V.T @ R, lower=True, check_finite=False).T
        core -= F @ F.T
    values, Y = scipy.linalg.eigh(core, subset_by_index=[r - dim, r - 1], overwrite_a=True, check_finite=False)
    kept = values > r * np.finfo(values.dtype).eps * L[0]  # below, L - F F^T is only rounding
    values, Y = values[kept][::-1] / lam, Y[:, kept][:, ::-1]
    B = R @ Y
    A = B / lam
    if V.shape[1]:
        A -= V @ (scipy.linalg.cho_solve((C, True), V.T @ B, check_finite=False) / lam)
    A /= np.linalg.norm(A, axis=0) if scaling == "unit" else values
    return Eigenvectors(with_fixed_signs(A), values)


def with_fixed_signs(A: Array) -> Array:
    """Each column with the sign that makes its entry of largest size positive, so that a result can be repeated.

    >>> with_fixed_signs(np.array([[1.0, 2.0], [-3.0, 1.0]]))
    array([[-1.,  2.],
           [ 3.,  1.]])
    """
    largest = np.abs(A).argmax(axis=0)
    signs = np.sign(A[largest, np.arange(A.shape[1])])
    return np.ascontiguousarray(A * np.where(signs == 0, 1, signs))


def shrink_along(A: Array, G: Array, mu: float) -> Array:
    """(I + mu G^T G)^{-1} A by Woodbury: A - mu G^T (I + mu G G^T)^{-1} (G A). Rows of G are the directions.

    >>> A, G = np.eye(3), np.array([[1.0, 2.0, 0.0]])
    >>> np.allclose(shrink_along(A, G, 0.5), np.linalg.inv(np.eye(3) + 0.5 * G.T @ G))
    True
    """
    inner = np.eye(len(G), dtype=G.dtype) + mu * (G @ G.T)
    return np.asarray(A - mu * (G.T @ np.linalg.solve(inner, G @ A)))


def symmetric_power(C: Array, power: float) -> Array:
    """C^power of a symmetric positive definite matrix.

    >>> symmetric_power(np.diag([4.0, 9.0]), 0.5)
    array([[2., 0.],
           [0., 3.]])
    """
    values, Q = np.linalg.eigh(C)
    return np.asarray((Q * values**power) @ Q.T)
