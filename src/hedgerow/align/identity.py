"""No alignment: the space is the input space."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.align.base import Alignment, Info, Projection
from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.source_rows import SourceRows


@dataclass(frozen=True)
class Identity:
    """z = x."""

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """The identity projection."""
        return Alignment(Projection(), Info(rank=source.shape[1]))

    def fit_rows(self, source: SourceRows, K: int, target: Matrix) -> Alignment:
        """The same for a source wherever it is."""
        return Alignment(Projection(), Info(rank=source.width))
