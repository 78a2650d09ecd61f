"""CORAL (Sun, Feng and Saenko 2016): the source is re-coloured with the covariance of the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.align.base import Alignment, Info, Projection
from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.linalg import symmetric_power


@dataclass(frozen=True)
class CORAL:
    """x_s <- x_s C_s^{-1/2} C_t^{1/2}, C = cov + ridge I; the target stays as it is.

    As ridge goes to 0 the covariance of the mapped source becomes that of the target. Fewer than two target rows give
    no covariance: the source then stays as it is.
    """

    ridge: float = 1.0

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """The map of the source; the projection of the target is the identity."""
        m = source.shape[1]
        if target.shape[0] < 2 or source.shape[0] < 2:
            return Alignment(Projection(), Info(rank=m, note="fewer than two rows: the source stays as it is"))
        Cs, Ct = self._covariance(source), self._covariance(target)
        M = symmetric_power(Cs, -0.5) @ symmetric_power(Ct, 0.5)
        before = float(np.linalg.norm(Cs - Ct) ** 2)
        after = float(np.linalg.norm(M.T @ Cs @ M - Ct) ** 2)
        return Alignment(Projection(source_map=M), Info(discrepancy=[before, after], rank=m))

    def _covariance(self, X: Matrix) -> Array:
        return np.cov(dense(X), rowvar=False).reshape(X.shape[1], X.shape[1]) + self.ridge * np.eye(X.shape[1])
