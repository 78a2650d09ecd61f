"""Aligners: from a labelled source and unlabelled target rows to a common space, with a projection for new rows.

An aligner is a frozen dataclass of options with one method, `fit(source, codes, target) -> Alignment`. To add one,
write such a class and register it: `register_aligner("mine", Mine)`.

| aligner                | brings together                      | projection                                    |
|------------------------|--------------------------------------|-----------------------------------------------|
| `identity`             | nothing                              | z = x                                         |
| `tca`, `jda`, `bda`    | means of the domains, of the classes | directions of large variance and small gaps   |
| `coral`                | covariances                          | of the source onto the target's               |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense, is_sparse, stack_rows
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.linalg import diagonal_minus_low_rank, fix_signs, shrink_along, symmetric_power
from hedgerow.core.preprocess import unit
from hedgerow.core.registry import Parts

__all__ = [
    "ALIGNERS",
    "BDA",
    "CORAL",
    "JDA",
    "TCA",
    "Aligner",
    "Alignment",
    "Identity",
    "Info",
    "Projection",
]
__all__ += ["refreshed", "register_aligner"]


@dataclass(frozen=True)
class Projection:
    r"""Into the common space, for rows never seen before as well.

    .. math:: z = A^\top x

    Parameters
    ----------
    A : array of shape (features, dimensions) or None
        None is the identity.
    source_map : array or None
        What a source row is multiplied by first: CORAL moves the source and leaves the target where it is.

    Examples
    --------
    >>> Projection(A=np.array([[2.0], [0.0]]))(np.array([[1.0, 5.0]]))
    array([[2.]])
    """

    A: Array | None = None
    source_map: Array | None = None

    def __call__(self, X: Matrix) -> Matrix:
        """Target rows (or source rows already mapped) in the common space."""
        return X if self.A is None else np.asarray(X @ self.A, dtype=X.dtype)

    def mapped(self, X: Matrix) -> Matrix:
        """Source rows brought into the target's input space."""
        return X if self.source_map is None else np.asarray(X @ self.source_map, dtype=X.dtype)


@dataclass(frozen=True)
class Info:
    """How an alignment was found, for people and plots; nothing later depends on it.

    Attributes
    ----------
    discrepancy : list of float
        The MMD part of the objective, |V^T A|_F^2, in each round.
    changed : list of int
        The number of pseudo-labels that differ from the round before.
    rank : int
        The dimension of the space that the data allowed.
    eigenvalues : array
        Those of the problem solved, largest first; for an MMD aligner a^T S a / a^T P a of each direction a.
    pseudo_labels : array or None
        Codes of the target rows in the last round.
    note : str
        What else is to be said.
    """

    discrepancy: list[float] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    rank: int = 0
    eigenvalues: Array = field(default_factory=lambda: np.empty(0))
    pseudo_labels: Array | None = None
    note: str = ""


@dataclass(frozen=True)
class Alignment:
    """What an aligner returns: a projection and how it was found.

    Attributes
    ----------
    projection : Projection
        For rows of both domains, old and new.
    info : Info
        For people and plots.

    Examples
    --------
    >>> Alignment(Projection(np.eye(3, 2)), Info(rank=2)).projection(np.ones((1, 3))).tolist()
    [[1.0, 1.0]]
    """

    projection: Projection
    info: Info


@runtime_checkable
class Aligner(Protocol):
    """What an aligner has to have: one method. Its options are fields of a frozen dataclass.

    `hedgerow.testing.check_aligner` tests its laws; `JDA` and `CORAL` are examples.

    >>> isinstance(JDA(dim=2), Aligner)
    True
    """

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """Align the source with the unlabelled target rows.

        Parameters
        ----------
        source : array or sparse matrix of shape (rows, features)
            Rows of one source.
        codes : array of int
            Their classes, 0..K-1.
        target : array or sparse matrix
            Unlabelled rows; there may be none.

        Returns
        -------
        Alignment
        """
        ...


@dataclass(frozen=True)
class Identity:
    """z = x: domains are compared as they are.

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0]])
    >>> Identity().fit(rows, np.array([0]), rows).projection(rows).tolist()
    [[1.0, 2.0]]
    """

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """The identity projection."""
        return Alignment(Projection(), Info(rank=source.shape[1]))


def no_direction(n: int, what: str) -> InputError:
    """The error for n rows that leave no direction, being all zero or the same."""
    return InputError(
        f"n_samples = {n}: all rows of the source and the target are {what} after scaling, so there is no direction to "
        "keep; give rows that differ, or use aligner='identity'"
    )


# -- TCA, JDA and BDA --------------------------------------------------------------------------------------------------
#
# TCA, JDA and BDA: projections that keep variance and bring the means of two domains together.
#
# All three solve  (X M X^T + lam I) A = X H X^T A Phi  for the d smallest Phi (X has a sample per column there; our
# arrays have one per row), with M = sum_c w_c e_c e_c^T, e_0 the overall mean gap and e_1..e_K the class mean gaps, the
# target's classes being pseudo-labels of the round before:
#
# | aligner | w_0    | w_1..w_K | reference                              |
# |---------|--------|----------|----------------------------------------|
# | TCA     | 1      | 0        | Pan, Tsang, Kwok, Yang 2011            |
# | JDA     | K      | 1        | Long, Wang, Ding, Sun, Yu 2013 (code)  |
# | BDA     | 1 - mu | mu       | Wang, Chen, Hao, Feng, Shen 2017       |
#
# M = E^T E has rank K+1, E (K+1 x N) is sparse, and the scatter is factorised once for all rounds: see
# `scatter`. JDA is the alignment of Sec. 3.3 of the paper.
#
# The eigenproblem of TCA, JDA and BDA, (lam I + V V^T) A = S A Phi, solved for one S and many V.
#
# S = X^T H X is the centred scatter of the N rows of X, and V = X^T E^T (m x k) are k contrasts of rows: each row of
# E (k x N, sparse) weighs the instances. S is factorised once, by the smaller of its two Gram matrices; then every V
# costs a few products with what is left of it, and no m x m or N x N matrix of V's is built.
#
#     S = R R^T, R^T R = diag(L)     tall, N >= m:  X^T H X = Q L Q^T, R = Q L^{1/2}
#                                    wide, N <  m:  H X X^T H = U L U^T, R = X^T U
#     C C^T = lam I + V^T V,  F = (C^{-1} V^T R)^T
#     (L - F F^T) y = lam theta y    symmetric, diagonal minus rank k; theta = 1/Phi, largest first
#     a = (R y - V t)/lam            t = (C C^T)^{-1} V^T R y, and V^T a = t: the gap that is left
#
# V itself stands in a, not its part in the span of S: they differ where a contrast does not sum to zero. With a^T S a
# = theta^2 and a^T (lam I + V V^T) a = theta every length is known without forming a.
PRODUCTS = 2**24  # of queries with rows, at once: 128 MB
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

    def discrepancy(self, scaling: str) -> float:
        """|V^T A|_F^2."""
        return float(((self.T / self.scales(scaling)) ** 2).sum())


def scatter(X: Matrix) -> Scatter:
    """The centred scatter of the rows of X, factorised in double precision by the smaller of its Gram matrices.

    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 3.0]])
    >>> np.allclose(scatter(X).values.sum(), 3 * X.var(axis=0).sum())
    True
    """
    X = X.astype(np.float64, copy=False)
    return _Tall(X) if X.shape[1] <= X.shape[0] else _Wide(X)


class Scatter(ABC):
    """The centred scatter X^T H X (m x m), factorised: R R^T, with its eigenvalues `values`, largest first."""

    values: Array

    def solve(self, E: Matrix, lam: float, dim: int) -> Solution:
        """The `dim` best directions for V = X^T E^T, or fewer where V V^T leaves fewer above rounding."""
        import scipy.linalg

        VR, VV = self._contrasted(E)
        C = np.linalg.cholesky(lam * np.eye(len(VV)) + VV)
        F = scipy.linalg.solve_triangular(C, VR, lower=True, check_finite=False).T
        core, Y = diagonal_minus_low_rank(self.values, F, min(dim, len(self.values)))
        kept = (
            core > len(self.values) * np.finfo(core.dtype).eps * self.values[0]
        )  # below, L - F F^T is only rounding
        Y = Y[:, kept]
        theta = core[kept] / lam
        T = scipy.linalg.cho_solve((C, True), VR @ Y, check_finite=False)
        lengths = np.sqrt(
            np.maximum(theta - (T * T).sum(axis=0), np.finfo(theta.dtype).eps * theta) / lam
        )
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


class _Tall(Scatter):
    """At least as many rows as features: Q and L of the m x m scatter."""

    def __init__(self, X: Matrix) -> None:
        mean = np.asarray(X.mean(axis=0)).ravel()
        sparse = is_sparse(X)
        S = (
            dense(X.T @ X) - X.shape[0] * np.outer(mean, mean)
            if sparse
            else _centred_gram(X, mean, axis=0)
        )
        self.X = X
        self.values, self.Q = _eigenvectors(np.asarray(S, dtype=np.float64, order="F"))

    def _contrasted(self, E: Matrix) -> tuple[Array, Array]:
        V = dense(E @ self.X)
        return (V @ self.Q) * np.sqrt(self.values), V @ V.T

    def _directions(self, solution: Solution) -> Array:
        RY = self.Q @ (np.sqrt(self.values)[:, None] * solution.Y)
        return np.asarray(RY - dense(solution.E @ self.X).T @ solution.T) / solution.lam

    def projected(self, solution: Solution, scaling: str) -> Array:
        return np.asarray(self.X @ (self._directions(solution) / solution.scales(scaling)))


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
        EU = E @ self.U
        sums = np.asarray(E.sum(axis=1)).ravel()
        Ek = E @ self.kappa
        VV = (EU * self.values) @ EU.T
        VV += np.outer(sums, Ek) + np.outer(Ek, sums) - self.kappa.mean() * np.outer(sums, sums)
        return EU * self.values + np.outer(sums, self.mean_R), VV

    def _directions(self, solution: Solution) -> Array:
        return np.asarray(
            self.X.T @ ((self.U @ solution.Y - solution.E.T @ solution.T) / solution.lam)
        )

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


EMPTY = ("source", "skip")
SCALINGS = ("unit", "S")


@dataclass(frozen=True)
class _MMD(ABC):
    """The options that TCA, JDA and BDA share."""

    dim: int = 100
    lam: float = 1.0
    rounds: int = 10
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
        if self.unit_input:
            rows = unit(rows, out=rows)
        A, info = self._rounds(rows, codes)
        return Alignment(Projection(A), info)

    def _rounds(self, X: Matrix, codes: Array) -> tuple[Array, Info]:
        S = scatter(X)
        if not len(S.values):
            raise no_direction(X.shape[0], "the same")
        pseudo: Array | None = None
        solved: dict[
            bytes, tuple[Solution, Array]
        ] = {}  # labels follow from those of the round before: they may cycle
        history: list[float] = []
        changed: list[int] = []
        for _ in range(self.rounds):
            key = b"" if pseudo is None else pseudo.tobytes()
            if key not in solved:
                solved[key] = self._round(S, codes, pseudo, X.shape[0] - len(codes))
            solution, labels = solved[key]
            history.append(solution.discrepancy(self.eigenvectors))
            if not len(labels):
                break
            changed.append(len(labels) if pseudo is None else int((labels != pseudo).sum()))
            if changed[-1] == 0:
                break  # exact: every later round would solve the same problem
            pseudo = labels
        A = S.directions(solution, self.eigenvectors)
        return A, Info(history, changed, len(S.values), solution.values, pseudo)

    def _round(
        self, S: Scatter, codes: Array, pseudo: Array | None, nt: int
    ) -> tuple[Solution, Array]:
        """The best directions for these pseudo-labels, and the labels of the nearest source rows there (if wanted)."""
        solution = S.solve(self._contrasts(codes, pseudo, nt), self.lam, self.dim)
        if not nt or self.weights(1)[1] == 0:
            return solution, codes[:0]
        Z = unit(S.projected(solution, self.eigenvectors))
        return solution, codes[nearest_row(Z[len(codes) :], Z[: len(codes)])]

    def _contrasts(self, codes: Array, pseudo: Array | None, nt: int) -> Matrix:
        """E (k x N) with M = E^T E: its rows are sqrt(w_0) e_0 and sqrt(w_c) e_c, over sqrt |M|_F if normalised."""
        import scipy.sparse as sp

        ns = len(codes)
        if not nt:
            return sp.csr_array((0, ns))
        groups = np.unique(codes)
        w0, wc = self.weights(len(groups))
        parts = [np.sqrt(w0) * mean_gaps(np.zeros(ns), np.zeros(nt), np.zeros(1))]
        if pseudo is not None and wc > 0:
            used = groups if self.empty == "source" else np.intersect1d(groups, pseudo)
            parts.append(np.sqrt(wc) * mean_gaps(codes, pseudo, used))
        E = sp.vstack(parts, format="csr")
        size = (
            np.linalg.norm((E @ E.T).toarray()) if self.normalise else 1.0
        )  # |E^T E|_F = |E E^T|_F
        return E / np.sqrt(size or 1.0)

    def _check(self) -> None:
        for name, value, known in (
            ("rule for an empty pseudo-class (empty)", self.empty, EMPTY),
            ("eigenvector scaling", self.eigenvectors, SCALINGS),
        ):
            if value not in known:
                raise unknown(name, value, known)
        if self.dim < 1 or self.rounds < 1 or not self.lam > 0:
            raise InputError(
                f"dim={self.dim}, rounds={self.rounds}, lam={self.lam}: all three must be positive"
            )


@dataclass(frozen=True)
class TCA(_MMD):
    r"""Transfer component analysis: only the overall means are brought together; one solve, no pseudo-labels.

    .. math:: \max_A \mathrm{tr}\big((A^T P A)^{-1} A^T S A\big), \qquad P = \lambda I + V V^T

    S is the scatter of all rows, V the gap of the means; the value reached is the sum of `eigenvalues`. Use it where
    classes move together, or where a source stands in partitions: means and scatter are all it needs. Where classes
    move apart from each other, `JDA` sees what TCA cannot.

    Parameters
    ----------
    dim : int
        Largest number of directions.
    lam : float
        Regularisation, the weight of \|A\|^2: larger values keep directions of large variance.
    rounds : int
        Rounds of pseudo-labels; TCA needs one.
    eigenvectors : {"unit", "S"}
        What is one for each direction a: its length, or the variance a^T S a.
    empty : {"source", "skip"}
        A class without pseudo-labels: its gap is the source's mean, or left out.
    normalise : bool
        Whether M is divided by its norm.
    unit_input : bool
        Whether rows are scaled to unit length first.

    References
    ----------
    S. J. Pan, I. W. Tsang, J. T. Kwok, Q. Yang. Domain adaptation via transfer component analysis. IEEE TNN, 2011.

    Examples
    --------
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
    r"""Joint distribution adaptation (Sec. 3.3) as the authors run it: e_0 e_0^T times K, M over its norm, unit rows.

    .. math:: \min_A \mathrm{tr}(A^T X M X^T A) + \lambda \|A\|_F^2 \quad \text{with} \quad A^T X H X^T A = I

    M sums the gaps of the overall means and of the class means, the target's classes being the labels of the nearest
    source rows in the space of the round before. Without target rows there is nothing to bring together: the projection
    is onto the leading principal axes of the source, and the refresh takes over as labels arrive.

    Parameters
    ----------
    dim : int
        Largest number of directions.
    lam : float
        Regularisation, the weight of \|A\|^2: larger values keep directions of large variance.
    rounds : int
        Rounds of pseudo-labels; TCA needs one.
    eigenvectors : {"unit", "S"}
        What is one for each direction a: its length, or the variance a^T S a.
    empty : {"source", "skip"}
        A class without pseudo-labels: its gap is the source's mean, or left out.
    normalise : bool
        Whether M is divided by its norm.
    unit_input : bool
        Whether rows are scaled to unit length first.

    References
    ----------
    M. Long, J. Wang, G. Ding, J. Sun, P. S. Yu. Transfer feature learning with joint distribution adaptation. ICCV,
    2013.

    Examples
    --------
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
    r"""Balanced distribution adaptation: JDA with a weight between the overall gap and those of the classes.

    .. math:: M = (1 - \mu) e_0 e_0^T + \mu \sum_c e_c e_c^T

    Parameters
    ----------
    dim : int
        Largest number of directions.
    lam : float
        Regularisation, the weight of \|A\|^2: larger values keep directions of large variance.
    rounds : int
        Rounds of pseudo-labels; TCA needs one.
    eigenvectors : {"unit", "S"}
        What is one for each direction a: its length, or the variance a^T S a.
    empty : {"source", "skip"}
        A class without pseudo-labels: its gap is the source's mean, or left out.
    normalise : bool
        Whether M is divided by its norm.
    unit_input : bool
        Whether rows are scaled to unit length first.
    balance : float
        mu, in [0, 1]: 0 is TCA's gap, 1 those of the classes alone.

    References
    ----------
    J. Wang, Y. Chen, S. Hao, W. Feng, Z. Shen. Balanced distribution adaptation for transfer learning. ICDM, 2017.

    Examples
    --------
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


def mean_gaps(source: Array, target: Array, classes: Array) -> Matrix:
    """e_c for every class c: 1/n_s^c on its source rows, -1/n_t^c on its target rows (k x N, CSR, source rows first).

    >>> mean_gaps(np.array([0, 1, 1]), np.array([1]), np.array([0, 1])).toarray()
    array([[ 1. ,  0. ,  0. ,  0. ],
           [ 0. ,  0.5,  0.5, -1. ]])
    """
    import scipy.sparse as sp

    parts = []
    for labels, sign in ((source, 1.0), (target, -1.0)):
        columns = np.flatnonzero(np.isin(labels, classes))
        rows = np.searchsorted(classes, labels[columns])
        weights = sign / np.bincount(rows, minlength=len(classes))[rows]
        parts.append(sp.csr_array((weights, (rows, columns)), shape=(len(classes), len(labels))))
    return sp.hstack(parts, format="csr")


def nearest_row(queries: Array, rows: Array) -> Array:
    """Index of the nearest row by Euclidean distance; ties go to the lowest index.

    >>> nearest_row(np.array([[0.9, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0]]))
    array([1])
    """
    half = 0.5 * (rows * rows).sum(axis=1)
    nearest = np.empty(len(queries), dtype=np.int64)
    step = max(1, PRODUCTS // max(len(rows), 1))
    for a in range(0, len(queries), step):
        nearest[a : a + step] = (queries[a : a + step] @ rows.T - half).argmax(axis=1)
    return nearest


# -- the update of a projection as labels arrive -----------------------------------------------------------------------

INVERSES = ("woodbury", "pinv")


def refreshed(A: Array, G: Array, mu: float, inverse: str = "woodbury") -> Array:
    r"""The projection after some labels (Eq. 12, 13; Alg. 1, line 16).

    .. math:: \arg\min_B \|B - A\|_F^2 + \mu \sum_k \|B^\top g_k\|^2 = (I + \mu G^\top G)^{-1} A

    By default `oddm` does it in products of vectors alone, `spaces.py`; tests hold that form to this one.

    Parameters
    ----------
    A : array of shape (features, dimensions)
        The projection.
    G : array of shape (gaps, features)
        The gaps of the means, :math:`g_k` in row k.
    mu : float
        The strength of the update.
    inverse : {"woodbury", "pinv"}
        :math:`I + \mu G^\top G` has no eigenvalue below 1, so the pseudo-inverse that the paper keeps for the singular
        case is never needed; "pinv" takes it all the same, and gives the same numbers at m^3 the price.

    Returns
    -------
    array of shape (features, dimensions)

    References
    ----------
    Du, Tan, Chen, Zhang, Wang: Homogeneous online transfer learning with online distribution discrepancy
    minimization (ECAI 2020).

    Examples
    --------
    >>> A, G = np.eye(2), np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> refreshed(A, G, 1.0), np.allclose(refreshed(A, G, 1.0), refreshed(A, G, 1.0, "pinv"))
    (array([[0.5, 0. ],
           [0. , 1. ]]), True)
    """
    if inverse == "pinv":
        return np.asarray(np.linalg.pinv(np.eye(len(A)) + mu * G.T @ G) @ A)
    if inverse != "woodbury":
        raise unknown("inverse", inverse, INVERSES)
    return shrink_along(A, G[G.any(axis=1)], mu)


# -- CORAL -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CORAL:
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

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """The map of the source; the projection of the target is the identity."""
        m = source.shape[1]
        if target.shape[0] < 2 or source.shape[0] < 2:
            return Alignment(
                Projection(), Info(rank=m, note="fewer than two rows: the source stays as it is")
            )
        Cs = self._covariance(source)
        Ct = self._covariance(target)
        M = symmetric_power(Cs, -0.5) @ symmetric_power(Ct, 0.5)
        before = float(np.linalg.norm(Cs - Ct) ** 2)
        after = float(np.linalg.norm(M.T @ Cs @ M - Ct) ** 2)
        return Alignment(Projection(source_map=M), Info(discrepancy=[before, after], rank=m))

    def _covariance(self, X: Matrix) -> Array:
        D = dense(X).astype(np.float64)
        D -= D.mean(axis=0)
        return np.asarray(D.T @ D / (len(D) - 1) + self.ridge * np.eye(D.shape[1]))


# -- the table ---------------------------------------------------------------------------------------------------------

ALIGNERS: Parts[Aligner] = Parts(
    "aligner",
    Aligner,
    {
        "identity": Identity,
        "tca": TCA,
        "jda": JDA,
        "bda": BDA,
        "coral": CORAL,
    },
)


def register_aligner(name: str, aligner: type[Aligner], *, replace: bool = False) -> type[Aligner]:
    """Make an aligner class known by a name, for `PaperOptions(aligner=name)` and for model files.

    Parameters
    ----------
    name : str
        What users write.
    aligner : type
        A frozen dataclass of its options with `fit`; `hedgerow.testing.check_aligner` tests its laws.
    replace : bool
        Whether an aligner that has this name already may be replaced.

    Returns
    -------
    type
        The class.

    Raises
    ------
    InputError
        If the name is taken by another and `replace` is False.

    Examples
    --------
    >>> register_aligner("identity", Identity) is ALIGNERS["identity"]
    True
    """
    ALIGNERS.register(name, aligner, replace=replace)
    return aligner
