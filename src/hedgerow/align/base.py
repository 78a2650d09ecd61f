"""What every aligner returns: a projection for rows old and new, and an account of how it was found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import unit
from hedgerow.core.source_rows import InMemory, SourceRows


class OfStatistics(ABC):
    """An aligner that asks the source for statistics: in memory it is what it is for a source anywhere."""

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """Align the source with the unlabelled target rows."""
        return self.fit_rows(InMemory(source, codes), int(codes.max(initial=-1)) + 1, target)

    @abstractmethod
    def fit_rows(self, source: SourceRows, K: int, target: Matrix) -> Alignment:
        """As `fit`, for a source with codes 0..K-1 wherever its rows are."""


def no_direction(n: int, what: str) -> InputError:
    """The error for n rows that leave no direction, being all zero or the same."""
    return InputError(
        f"n_samples = {n}: all rows of the source and the target are {what} after scaling, so there is no direction to "
        "keep; give rows that differ, or use aligner='identity'"
    )


@dataclass(frozen=True)
class Identity(OfStatistics):
    """z = x."""

    def fit_rows(self, source: SourceRows, K: int, target: Matrix) -> Alignment:
        """The identity projection."""
        return Alignment(Projection(), Info(rank=source.width))


@dataclass(frozen=True)
class Projection:
    """z = phi(x) A, for rows never seen before as well.

    phi is the identity, or with `landmarks` the row of kernel values over them (`kernel_rows`): Gaussian with a gamma,
    quadratic with gamma = None. A = None is the identity.
    A source row first goes through `source_map` (CORAL moves the source and leaves the target where it is).

    >>> Projection(A=np.array([[2.0], [0.0]]))(np.array([[1.0, 5.0]]))
    array([[2.]])
    """

    A: Array | None = None
    source_map: Array | None = None
    landmarks: Array | None = None
    gamma: float | None = 1.0

    def features(self, X: Matrix) -> Matrix:
        """phi(x) of target rows (or of source rows already mapped)."""
        return X if self.landmarks is None else kernel_rows(X, self.landmarks, self.gamma)

    def __call__(self, X: Matrix) -> Matrix:
        """Target rows in the common space."""
        phi = self.features(X)
        return phi if self.A is None else np.asarray(phi @ self.A, dtype=X.dtype)

    def mapped(self, X: Matrix) -> Matrix:
        """Source rows brought into the target's input space."""
        return X if self.source_map is None else np.asarray(X @ self.source_map, dtype=X.dtype)


def kernel_rows(X: Matrix, landmarks: Array, gamma: float | None) -> Array:
    """k(x, l) for each row x (scaled to unit length) and landmark l (of unit length): Gaussian, or quadratic for None.

    >>> kernel_rows(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]), None)
    array([[0.48, 0.72]])
    """
    return quadratic(unit(X) @ landmarks.T) if gamma is None else rbf_rows(X, landmarks, gamma)


def quadratic(c: Array) -> Array:
    """(c + c^2)/2 of a cosine c: linear and second-degree features in equal parts."""
    return np.asarray((c + c * c) / 2)


def rbf_rows(X: Matrix, landmarks: Array, gamma: float) -> Array:
    """exp(-gamma |x - l|^2) for each row x (scaled to unit length) and landmark l (rows of unit length)."""
    D = unit(dense(X))
    squares = (D * D).sum(axis=1)[:, None] + (landmarks * landmarks).sum(axis=1) - 2 * (D @ landmarks.T)
    return np.asarray(np.exp(-gamma * np.maximum(squares, 0)))


@dataclass(frozen=True)
class Info:
    """How an alignment was found, for people and plots; nothing later depends on it.

    `discrepancy[r]` is the MMD part of the objective, |V^T A|_F^2, in round r; `changed[r]` the number of pseudo-labels
    that differ from the round before; `eigenvalues` those of the problem solved, largest first (for an MMD aligner
    a^T S a / a^T P a of each direction a).
    """

    discrepancy: list[float] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    rank: int = 0
    eigenvalues: Array = field(default_factory=lambda: np.empty(0))
    pseudo_labels: Array | None = None
    note: str = ""


@dataclass(frozen=True)
class Alignment:
    """A projection and how it was found."""

    projection: Projection
    info: Info


@runtime_checkable
class Aligner(Protocol):
    """source (N_s x m) with codes 0..K-1, target (N_t x m, may have no rows) -> Alignment."""

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """Align the source with the unlabelled target rows."""
        ...


@runtime_checkable
class MergingAligner(Aligner, Protocol):
    """An aligner that asks the source for statistics that merge: it may stand in partitions, on other machines."""

    def fit_rows(self, source: SourceRows, K: int, target: Matrix) -> Alignment:
        """As `fit`, for a source with codes 0..K-1 wherever its rows are."""
        ...
