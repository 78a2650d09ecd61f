"""The authors' operations in plain NumPy: the yardstick of the benchmarks and an oracle in tests.

Every matrix is built by its definition: the n x n MMD matrix, the n x n centring matrix, the dense m x m pencil and
its generalised eigenproblem, all distances of the nearest-neighbour labels. Rows are instances.
The online part (dense B, `inv`, two projections an instance, all gaps rebuilt at every step) is in `naive_online.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from naive_online import oddm, replay

__all__ = ["Solution", "jda", "mmd_matrix", "oddm", "replay", "scatter", "smallest", "squared_distances", "unit_rows"]

Array = np.ndarray[Any, Any]


class Solution(NamedTuple):
    """Projection (m x d), the largest values of a^T S a / a^T P a, and the pseudo-labels after every round."""

    A: Array
    values: Array
    pseudo_labels: list[Array]


def jda(
    source: Array,
    codes: Array,
    target: Array,
    dim: int,
    lam: float,
    rounds: int,
    eigenvectors: str = "unit",
    empty: str = "source",
) -> Solution:
    """JDA as its authors run it: always all rounds, each a dense generalised eigenproblem, then 1-NN pseudo-labels."""
    X = unit_rows(np.vstack([source, target]))
    ns, K = len(source), len(np.unique(codes))
    pseudo, history = None, []
    for _ in range(rounds):
        M = mmd_matrix(codes, pseudo, len(target), K, 1.0, empty)
        values, A = smallest(X, M, lam, dim)
        if eigenvectors == "S":
            A = A / np.sqrt(np.einsum("ij,ij->j", A, scatter(X) @ A))
        Z = unit_rows(X @ A)
        pseudo = codes[squared_distances(Z[ns:], Z[:ns]).argmin(axis=1)]
        history.append(pseudo)
    return Solution(A, values, history)


def mmd_matrix(
    codes: Array, pseudo: Array | None, nt: int, w0: float, wc: float, empty: str = "source", normalise: bool = True
) -> Array:
    """M = w_0 e_0 e_0^T + w_c sum_c e_c e_c^T, n x n, class by class, over its Frobenius norm.

    A class with no pseudo-label keeps only its source half ("source"), or is left out ("skip").
    """
    ns = len(codes)
    e0 = np.concatenate([np.full(ns, 1 / ns), np.full(nt, -1 / nt)])
    M = w0 * np.outer(e0, e0)
    for c in np.unique(codes) if pseudo is not None else ():
        e = np.zeros(ns + nt)
        e[:ns][codes == c] = 1 / (codes == c).sum()
        if (pseudo == c).any():
            e[ns:][pseudo == c] = -1 / (pseudo == c).sum()
        elif empty == "skip":
            continue
        M += wc * np.outer(e, e)
    return M / np.linalg.norm(M, "fro") if normalise else M


def scatter(X: Array) -> Array:
    """X^T H X with H = I - 1 1^T / n, by the definition."""
    H = np.eye(len(X)) - np.ones((len(X), len(X))) / len(X)
    return X.T @ H @ X


def smallest(X: Array, M: Array, lam: float, dim: int) -> tuple[Array, Array]:
    """The `dim` smallest Phi of (X^T M X + lam I) A = X^T H X A Phi, as values 1/Phi and unit vectors."""
    P = X.T @ M @ X + lam * np.eye(X.shape[1])
    phi, A = scipy.linalg.eig(P, scatter(X))
    finite = np.flatnonzero(np.isfinite(phi) & (phi.real > 0))  # a scatter of less than full rank has infinite ones
    best = finite[np.argsort(phi.real[finite])][:dim]
    A = A[:, best].real
    return 1 / phi.real[best], A / np.linalg.norm(A, axis=0)


def unit_rows(X: Array) -> Array:
    """x/|x|."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def squared_distances(A: Array, B: Array) -> Array:
    """|a - b|^2 for every pair, b by b."""
    return np.stack([((A - b) ** 2).sum(axis=1) for b in B], axis=1)
