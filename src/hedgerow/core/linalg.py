"""Linear algebra as we need it: a diagonal minus a low rank, a Woodbury solve, symmetric powers; one BLAS thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array

TAIL_ROUNDS = 20  # 2 on real spectra, 4 on flat ones
WHOLE_SPECTRUM = (
    5  # all eigenvectors by divide and conquer come sooner than a fifth of them one by one
)
ROUNDING = 100 * np.finfo(np.float64).eps


def diagonal_minus_low_rank(D: Array, F: Array, dim: int) -> tuple[Array, Array]:
    """The `dim` largest eigenvalues of diag(D) - F F^T, largest first, and their vectors. D descends; F is r x k.

    The spectrum interlaces: theta_dim >= D_{dim+k}. So the first q > dim + k coordinates are kept as they are, and in
    the tail, where D < theta, an eigenvector is y_tail = (D_tail - theta)^{-1} F_tail (F^T y): known from theta and k
    numbers. Rayleigh-Ritz in the span of the q coordinates and `dim` such tails gives better theta and F^T y, and so
    on: 2 to 4 eigenproblems of size q + dim + k instead of one of size r. What comes out has residuals at rounding
    level, and a count of the eigenvalues above theta_dim by Sylvester's law of inertia shows that none was missed; if
    either fails, the whole matrix is solved.

    >>> D, F = np.array([3.0, 2.0, 1.0]), np.array([[1.0], [0.0], [0.0]])
    >>> diagonal_minus_low_rank(D, F, 1)[0].tolist()
    [2.0]
    """
    r, k = F.shape
    if not k:
        return D[:dim], np.eye(r, dim)
    q = 2 * dim + k
    if 3 * (q + dim + k) < 2 * r and D[dim + k - 1] - D[q] > ROUNDING * D[0]:
        pairs = _by_tails(D, F, dim, q)
        if pairs is not None and _count_above(D, F, pairs[0][-1] * (1 + 1e-9)) < dim:
            return pairs
    return _largest(np.diag(D) - F @ F.T, dim)


def _by_tails(D: Array, F: Array, dim: int, q: int) -> tuple[Array, Array] | None:
    """Rayleigh-Ritz with exact tails; None if it does not converge."""
    import scipy.linalg

    head = D[:q]
    tail = D[q:, None]
    F_head = F[:q]
    F_tail = F[q:]
    # exact for every F^T y at one theta, so kept throughout: it carries what the tails of the round before miss
    fixed = tails = F_tail / (D[dim - 1] - tail)
    root = np.sqrt(tail - tail[-1])
    for _ in range(TAIL_ROUNDS):
        basis = scipy.linalg.qr(tails, mode="economic", check_finite=False)[0]
        G = np.vstack([F_head, basis.T @ F_tail])
        core = -(G @ G.T)
        rooted = basis * root  # a product with itself is half the work
        core[q:, q:] += rooted.T @ rooted
        core.flat[:: len(core) + 1] += np.append(head, np.full(len(core) - q, tail[-1, 0]))
        theta, U = _largest(core, dim)
        Y_tail = basis @ U[q:]
        pull = F_tail @ (G.T @ U)
        residual = np.linalg.norm((tail - theta) * Y_tail - pull, axis=0).max()
        if residual <= ROUNDING * np.sqrt(max(theta[-1], 0.0) * D[0]):
            return theta, np.vstack([U[:q], Y_tail])
        if theta[-1] <= tail[0]:
            return None
        tails = np.hstack([fixed, pull / (tail - theta)])
    return None


def _largest(core: Array, dim: int) -> tuple[Array, Array]:
    """The `dim` largest eigenpairs of a symmetric matrix, largest first."""
    import scipy.linalg

    n = len(core)
    if WHOLE_SPECTRUM * dim < n:
        values, vectors = scipy.linalg.eigh(
            core, subset_by_index=[n - dim, n - 1], check_finite=False
        )
        if (
            len(values) == dim
        ):  # LAPACK's search by index finds too few where eigenvalues are repeated
            return values[::-1], vectors[:, ::-1]
    values, vectors = scipy.linalg.eigh(core, driver="evd", check_finite=False)
    return values[: -dim - 1 : -1], vectors[:, : -dim - 1 : -1]


def _count_above(D: Array, F: Array, level: float) -> int:
    """How many eigenvalues of diag(D) - F F^T are above the level: inertia of its k x k Schur complement."""
    W = np.eye(F.shape[1]) - F.T @ (F / (D - level)[:, None])
    return int((level < D).sum() - (np.linalg.eigvalsh(W) < 0).sum())


def fix_signs(A: Array) -> Array:
    """Each column, in place, with the sign that makes its entry of largest size positive: a result can be repeated.

    >>> fix_signs(np.array([[1.0, 2.0], [-3.0, 1.0]]))
    array([[-1.,  2.],
           [ 3.,  1.]])
    """
    A *= np.where(A.max(axis=0) < -A.min(axis=0), -1.0, 1.0)
    return A


def shrink_along(A: Array, G: Array, mu: float) -> Array:
    """(I + mu G^T G)^{-1} A by Woodbury: A - mu G^T (I + mu G G^T)^{-1} (G A). Rows of G are the gaps (Eq. 13).

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


def upper_of(P: Array) -> Array:
    """The upper triangle of a symmetric matrix, row by row: half of its numbers.

    >>> upper_of(np.array([[1.0, 2.0], [2.0, 3.0]])).tolist()
    [1.0, 2.0, 3.0]
    """
    return np.concatenate([P[i, i:] for i in range(len(P))]) if len(P) else np.empty(0, P.dtype)


def from_upper(upper: Array) -> Array:
    """A matrix of which only the upper triangle means anything (zeros below).

    >>> from_upper(np.array([1.0, 2.0, 3.0])).tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    d = side_of(len(upper))
    P = np.zeros((d, d), upper.dtype)
    P[np.triu_indices(d)] = upper
    return P


def side_of(size: int) -> int:
    """d for which an upper triangle has so many numbers.

    >>> side_of(6), side_of(0)
    (3, 0)
    """
    d = int((np.sqrt(8.0 * size + 1.0) - 1.0) / 2.0 + 0.5)
    if d * (d + 1) // 2 != size:
        raise ValueError(f"{size} numbers are no triangle")
    return d


# One BLAS thread for small products.
#
# OpenBLAS splits even a product of a few rows over all cores, and then waits for whichever core is busy with something
# else: under load that takes 20 to 30 times as long. Inside `one_blas_thread` every BLAS that NumPy and SciPy have
# loaded has one thread; the caller's own setting comes back afterwards. It counts how many are inside, so that threads
# and nested calls set it once, and the last one out restores it. Enter it where signals wait, `with uninterrupted(),
# one_blas_thread`: an exception between the two halves of its own work would leave the count wrong for good.
Get = Callable[[], int]
Set = Callable[[int], Any]


class OneThread:
    """A context with one BLAS thread, to be entered as often as one likes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Set, int]] = []  # what to restore

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [
                    (tell, threads) for get, tell in _libraries() if (threads := get()) > 1
                ]
                for tell, _ in self._before:
                    tell(1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for tell, threads in self._before:
                    tell(threads)


one_blas_thread = OneThread()


@cache
def _libraries() -> list[tuple[Get, Set]]:
    """How each BLAS is asked for its threads and told: as C functions where it is OpenBLAS, which are called often."""
    import scipy.linalg.blas  # noqa: F401 (both have a BLAS of their own, which must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return [
        _functions(library)
        for library in ThreadpoolController().lib_controllers
        if library.user_api == "blas"
    ]


def _functions(library: Any) -> tuple[Get, Set]:
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("64_", "_64", ""):
            get = getattr(library.dynlib, f"{prefix}_get_num_threads{suffix}", None)
            if get is not None:
                return get, getattr(library.dynlib, f"{prefix}_set_num_threads{suffix}")
    return library.get_num_threads, library.set_num_threads
