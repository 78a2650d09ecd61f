"""CORAL (Sun, Feng and Saenko 2016): the source is re-coloured with the covariance of the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.align.base import Alignment, Info, Projection
from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.linalg import symmetric_power
from hedgerow.core.moments import Moments
from hedgerow.core.source_rows import ClassMoments, InMemory, SourceRows


@dataclass(frozen=True)
class CORAL:
    """x_s <- x_s C_s^{-1/2} C_t^{1/2}, C = cov + ridge I; the target stays as it is.

    As ridge goes to 0 the covariance of the mapped source becomes that of the target. Fewer than two target rows give
    no covariance: the source then stays as it is.
    """

    ridge: float = 1.0

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """The map of the source; the projection of the target is the identity."""
        return self.fit_rows(InMemory(dense(source), codes), 0, target)

    def fit_rows(self, source: SourceRows, K: int, target: Matrix) -> Alignment:
        """The same for a source wherever it is."""
        m = source.width
        if target.shape[0] < 2 or source.count < 2:
            return Alignment(Projection(), Info(rank=m, note="fewer than two rows: the source stays as it is"))
        scatter = ClassMoments(0, weighed=False, scatter=True)
        Cs, Ct = (self._covariance(rows.totals(scatter)[0]) for rows in (source, InMemory(dense(target))))
        M = symmetric_power(Cs, -0.5) @ symmetric_power(Ct, 0.5)
        before = float(np.linalg.norm(Cs - Ct) ** 2)
        after = float(np.linalg.norm(M.T @ Cs @ M - Ct) ** 2)
        return Alignment(Projection(source_map=M), Info(discrepancy=[before, after], rank=m))

    def _covariance(self, moments: Moments) -> Array:
        return np.asarray(moments.scatter / (moments.count - 1) + self.ridge * np.eye(len(moments.total)))
