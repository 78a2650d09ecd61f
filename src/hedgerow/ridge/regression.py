"""Recursive least squares with a prior, one row or one block at a time, with the same numbers.

Several heads share one P (d x d); their weights stand side by side in M (d x q). A row z with targets y:

    k = P z / (r + z' P z),   M += k (y - z' M),   P -= k z' P           r = 1/weight of the row

Block form (exact): S = diag(r) + Z P Z' = L L',  E = L^-1 (Y - Z M),  G = L^-1 Z P;  the fits before each label are
Y - diag(L) E, all at once, and afterwards M += G' E, P -= G' G. A row without a label is one of infinite r.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import Array

NEVER = 1e30  # r of a row that is predicted and not learned


def run_block(P: Array, M: Array, Z: Array, Y: Array, noise: Array) -> Array:
    """Fits of each row before its label (B x q); P and M in place. `noise` is r, a number a row.

    >>> P, M = np.eye(2), np.zeros((2, 1))
    >>> run_block(P, M, np.array([[1.0, 0.0], [1.0, 0.0]]), np.ones((2, 1)), np.ones(2)).ravel().round(6).tolist()
    [0.0, 0.5]
    """
    import scipy.linalg

    PZ = Z @ P
    L = np.linalg.cholesky(np.diag(noise) + PZ @ Z.T)
    both = scipy.linalg.solve_triangular(L, np.hstack([Y - Z @ M, PZ]), lower=True, check_finite=False)
    E, G = both[:, : Y.shape[1]], both[:, Y.shape[1] :]
    fits = np.asarray(Y - np.diag(L)[:, None] * E)
    both[noise >= NEVER] = 0  # exactly nothing is learned from such a row
    M += G.T @ E
    subtract_gram(P, G)
    return fits


def subtract_gram(P: Array, G: Array) -> None:
    """P -= G' G in place: one pass over P, no second matrix of its size (P symmetric, C-contiguous).

    >>> P = np.eye(2)
    >>> subtract_gram(P, np.array([[0.5, 0.0]]))
    >>> P.tolist()
    [[0.75, 0.0], [0.0, 1.0]]
    """
    from scipy.linalg.blas import dgemm

    rows = np.ascontiguousarray(G).T
    out = dgemm(-1.0, rows, rows, beta=1.0, c=P.T, trans_b=True, overwrite_c=True)
    if not np.shares_memory(out, P):  # BLAS was given a copy, because P is not laid out as it should be
        P[...] = out.T


def with_rows(P: Array, M: Array, U: Array, targets: Array, weight: float) -> tuple[Array, Array]:
    """P and M after the rows of U were learned too, with these targets and this weight each (copies)."""
    PU = P @ U.T
    A = np.linalg.solve(U @ PU + np.eye(len(U)) / weight, PU.T).T
    return P - A @ PU.T, M + A @ (targets - U @ M)


def source_prior(G: list[Array], sums: list[Array], weights: Array, codes: Array, lam: float, trust: float) -> Array:
    """M_0 = (lam I + g sum_i w_i G_i)^-1 g sum_i w_i Z_i' C[y_i], from Gram matrices and class sums (mergeable).

    Shapes: G_i d x d, sums_i K x d, codes K x q; result d x q.
    """
    d = len(G[0])
    gram = lam * np.eye(d)
    cross = np.zeros((d, codes.shape[1]))
    for w, g, s in zip(weights, G, sums, strict=True):
        gram += trust * w * g
        cross += trust * w * (s.T @ codes)
    return np.asarray(np.linalg.solve(gram, cross))


def deviation_prior(G: list[Array], d: int, lam: float, trust: float, tau: float) -> Array:
    """P_0 = (lam I + g sum_i G_i)^-1 + tau I: the sources' posterior, and a free deviation of the target's weights."""
    gram = lam * np.eye(d)
    for g in G:
        gram += trust * g
    return np.asarray(np.linalg.inv(gram) + tau * np.eye(d))
