"""TCA, JDA and BDA: projections that keep variance and bring the means of two domains together.

All three solve  (X M X^T + lam I) A = X H X^T A Phi  for the d smallest Phi (X has a sample per column there; our
arrays have one per row), with M = sum_c w_c e_c e_c^T, e_0 the overall mean gap and e_1..e_K the class mean gaps, the
target's classes being pseudo-labels of the round before:

| aligner | w_0    | w_1..w_K | reference                              |
|---------|--------|----------|----------------------------------------|
| TCA     | 1      | 0        | Pan, Tsang, Kwok, Yang 2011            |
| JDA     | K      | 1        | Long, Wang, Ding, Sun, Yu 2013 (code)  |
| BDA     | 1 - mu | mu       | Wang, Chen, Hao, Feng, Shen 2017       |

M has rank K+1 and X M X^T = V V^T, where the columns of V are weighted mean gaps: M itself is never built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from hedgerow.align.base import Alignment, Info, Projection, rbf_rows
from hedgerow.arrays import Array, Matrix, dense, stack_rows
from hedgerow.errors import InputError, unknown
from hedgerow.linalg import low_rank_pencil, scatter_root
from hedgerow.moments import Moments
from hedgerow.preprocess import unit

KERNELS = ("primal", "linear", "rbf")
EMPTY = ("source", "skip")
SCALINGS = ("unit", "S")


@dataclass(frozen=True)
class _MMD(ABC):
    """The options that TCA, JDA and BDA share."""

    dim: int = 100
    lam: float = 1.0
    rounds: int = 10
    kernel: str = "primal"
    gamma: float = 1.0
    eigenvectors: str = "unit"
    empty: str = "source"
    normalise: bool = True
    unit_input: bool = True

    @abstractmethod
    def weights(self, K: int) -> tuple[float, float]:
        """w_0 and w_c."""

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """Solve, label the target rows by their nearest source row, solve again, until the labels repeat."""
        self._check()
        rows = stack_rows([source, target])
        if self.unit_input or self.kernel == "rbf":  # the rbf kernel is defined on rows of unit length
            rows = unit(rows)
        X = rows if self.kernel == "primal" else _gram(rows, self.kernel, self.gamma)
        A, info = self._rounds(X, codes, int(codes.max()) + 1)
        if self.kernel == "linear":
            return Alignment(Projection(np.asarray(rows.T @ A)), info)
        if self.kernel == "rbf":
            return Alignment(Projection(A, landmarks=dense(rows), gamma=self.gamma), info)
        return Alignment(Projection(A), info)

    def _rounds(self, X: Matrix, codes: Array, K: int) -> tuple[Array, Info]:
        ns = len(codes)
        Xs, Xt = X[:ns], X[ns:]
        root = scatter_root(X)
        if not len(root.values):
            raise InputError(
                f"n_samples = {X.shape[0]}: all rows of the source and the target are the same after scaling, so there "
                "is no direction to keep; give rows that differ, or use aligner='identity'"
            )
        source = Moments.of(Xs, codes, K)
        pseudo: Array | None = None
        history: list[float] = []
        changed: list[int] = []
        for _ in range(self.rounds):
            V = self._gaps(source, Moments.of(Xt, pseudo, K), K)
            A, values = low_rank_pencil(root, V, self.lam, self.dim, self.eigenvectors)
            history.append(float(((V.T @ A) ** 2).sum()))
            if not Xt.shape[0] or self.weights(K)[1] == 0:
                break
            labels = codes[nearest_row(unit(np.asarray(Xt @ A)), unit(np.asarray(Xs @ A)))]
            changed.append(len(labels) if pseudo is None else int((labels != pseudo).sum()))
            if changed[-1] == 0:
                break  # exact: every later round would solve the same problem
            pseudo = labels
        return A, Info(history, changed, len(root.values), values, pseudo)

    def _gaps(self, source: Moments, target: Moments, K: int) -> Array:
        """V (m x k): the columns of X E, E = [sqrt(w_0) e_0, sqrt(w_c) e_c ..], over sqrt |E E^T|_F if normalised."""
        if not target.count[0]:
            return np.empty((len(source.total), 0))
        have_s, have_t = source.class_counts > 0, target.class_counts > 0
        w0, wc = self.weights(int(have_s.sum()))
        labelled = wc > 0 and have_t.any()
        used = have_s & (have_t if self.empty == "skip" else True) if labelled else np.zeros(K, dtype=bool)
        G = np.vstack(
            [np.sqrt(w0) * (source.mean - target.mean), np.sqrt(wc) * (source.class_means - target.class_means)[used]]
        )
        size = _frobenius(source, target, w0, wc, used) if self.normalise else 1.0
        G /= np.sqrt(size or 1.0)
        return np.ascontiguousarray(G.T)

    def _check(self) -> None:
        for name, value, known in (
            ("kernel", self.kernel, KERNELS),
            ("rule for an empty pseudo-class (empty)", self.empty, EMPTY),
            ("eigenvector scaling", self.eigenvectors, SCALINGS),
        ):
            if value not in known:
                raise unknown(name, value, known)
        if self.dim < 1 or self.rounds < 1 or not self.lam > 0:
            raise InputError(f"dim={self.dim}, rounds={self.rounds}, lam={self.lam}: all three must be positive")


@dataclass(frozen=True)
class TCA(_MMD):
    """Transfer component analysis: only the overall means are brought together; one solve, no pseudo-labels.

    max_A tr((A^T P A)^{-1} A^T S A), P = lam I + V V^T, S the scatter: the value reached is the sum of `eigenvalues`.

    >>> rng = np.random.default_rng(0)
    >>> s, t = rng.normal(size=(30, 5)), rng.normal(size=(20, 5)) + 1
    >>> TCA(dim=2).fit(s, np.zeros(30, dtype=int), t).projection(t).shape
    (20, 2)
    """

    normalise: bool = False
    unit_input: bool = False

    def weights(self, K: int) -> tuple[float, float]:
        """Only e_0."""
        return 1.0, 0.0


@dataclass(frozen=True)
class JDA(_MMD):
    """Joint distribution adaptation as the authors run it: e_0 e_0^T times K, M over its Frobenius norm, unit rows.

    Without target rows there is nothing to bring together: the projection is onto the leading principal axes of the
    source, and the refresh takes over as labels arrive.

    >>> rng = np.random.default_rng(0)
    >>> s, t = rng.normal(size=(30, 5)), rng.normal(size=(20, 5)) + 1
    >>> out = JDA(dim=2, rounds=3).fit(s, np.arange(30) % 2, t)
    >>> out.projection(t).shape, len(out.info.discrepancy) <= 3
    ((20, 2), True)
    """

    def weights(self, K: int) -> tuple[float, float]:
        """e_0 counts K times, as much as all classes together."""
        return float(K), 1.0


@dataclass(frozen=True)
class BDA(_MMD):
    """Balanced distribution adaptation: (1 - mu) e_0 e_0^T + mu sum_c e_c e_c^T.

    >>> rng = np.random.default_rng(0)
    >>> s, t = rng.normal(size=(30, 5)), rng.normal(size=(20, 5)) + 1
    >>> BDA(dim=2, rounds=2, balance=0.3).fit(s, np.arange(30) % 2, t).projection(t).shape
    (20, 2)
    """

    balance: float = 0.5

    def weights(self, K: int) -> tuple[float, float]:
        """The balance between the overall and the class gaps."""
        if not 0 <= self.balance <= 1:
            raise InputError(f"balance={self.balance}: BDA's mu must be in [0, 1]")
        return 1.0 - self.balance, self.balance


def _frobenius(source: Moments, target: Moments, w0: float, wc: float, used: Array) -> float:
    """|E E^T|_F = |E^T E|_F in closed form: the e_c have disjoint supports and meet only e_0."""
    cs, ct = source.class_counts[used], target.class_counts[used]
    diagonal = wc * (1 / cs + (ct > 0) / np.maximum(ct, 1))
    cross = np.sqrt(w0 * wc) * (1 / source.count[0] + (ct > 0) / target.count[0])
    corner = w0 * (1 / source.count[0] + 1 / target.count[0])
    return float(np.sqrt(corner**2 + (diagonal**2).sum() + 2 * (cross**2).sum()))


def nearest_row(queries: Array, rows: Array) -> Array:
    """Index of the nearest row by Euclidean distance; ties go to the lowest index.

    >>> nearest_row(np.array([[0.9, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0]]))
    array([1])
    """
    half = 0.5 * (rows * rows).sum(axis=1)
    return np.asarray((queries @ rows.T - half).argmax(axis=1))


def _gram(rows: Matrix, kernel: str, gamma: float) -> Array:
    if kernel == "rbf":
        D = dense(rows)
        return rbf_rows(D, D, gamma)
    return dense(rows @ rows.T)


__all__ = ["BDA", "JDA", "TCA", "nearest_row"]
